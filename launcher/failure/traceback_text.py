"""Finds in the end of a program's log how it failed: its last traceback, or its last plain lines. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from launcher.console.startup_noise import NoiseReader

SCREENFUL = 25
"""How many lines of a log are shown in a report."""
WIDTH = 300

_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_NATIVE_LOG = re.compile(r"(?:[IWEF]\d{4} \d\d:\d\d|\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+: [IWEF] )")
_HEADER = re.compile(r"[ |+]*(?:Exception Group )?Traceback \(most recent call last\):$")
_CONNECTORS = (
    "The above exception was the direct cause of the following exception:",
    "During handling of the above exception, another exception occurred:",
)
_AFTERMATH = re.compile(r"Exception ignored in|Error in atexit\._run_exitfuncs|Exception ignored on")
_NATIVE_DUMP = re.compile(r"Fatal Python error: ")
_SYNTAX_ERROR = re.compile(r"(?:SyntaxError|IndentationError|TabError): ")
_LOGGED = re.compile(r"\b(?:ERROR|CRITICAL|WARNING)\b|Exception in thread ")
_FRAME = re.compile(r'[ |]*File "(?P<path>[^"]+)", line (?P<line>\d+)')
_LIBRARY = re.compile(
    r"site-packages/|dist-packages/|/lib/python3\.\d+/|<frozen |__autograph_generated_file|^<string>$"
)
_EXCEPTION = re.compile(r"(?:\w+\.)*(?P<name>[A-Z]\w*)(?:: (?P<message>.*)|:)?$")
_OPERATION = re.compile(r" \[Op:\w+\](?: name:.*)?$")
_GRAPH_NODE = re.compile(r"\{\{function_node [^}]*\}\} ?")


@dataclass(frozen=True, slots=True)
class Raised:
    """One exception of a chain."""

    text: str
    """Its name and all that it says."""
    summary: str
    """The same in one line: `ValueError: labels out of range`."""
    location: str | None
    """`file:line` of the last frame that is the user's own code."""


@dataclass(frozen=True, slots=True)
class Crash:
    """A traceback at the end of a log."""

    chain: tuple[Raised, ...]
    """The exceptions in the order in which they were raised; the last one ended the program."""
    excerpt: tuple[str, ...]
    logged: bool
    """It was printed by a logging call or by the end of a thread: the program may have gone on."""
    went_on: bool
    """The program printed after it what it had printed before it."""
    ends_log: bool
    """Nothing of the program's own follows."""


def log_lines(tail: bytes) -> list[str]:
    """The lines of a log's tail as a person sees them: no colours, progress bars as they ended."""
    text = tail.decode(errors="replace").replace("\r\n", "\n")
    lines = [_ESCAPES.sub("", line.rstrip("\r").rpartition("\r")[2]).rstrip() for line in text.split("\n")]
    while lines and not lines[-1]:
        lines.pop()
    return lines


def last_lines(lines: Sequence[str], count: int = SCREENFUL) -> tuple[str, ...]:
    """The last lines without TensorFlow's start-up noise; with it where there is nothing else."""
    if not lines:
        return ()
    marked = NoiseReader().marked("".join(f"{line}\n" for line in lines).encode())
    said = [line for line, (_, noise) in zip(lines, marked, strict=True) if not noise]
    while said and not said[0]:
        said.pop(0)
    return _clipped((said or list(lines))[-count:])


def last_crash(lines: Sequence[str]) -> Crash | None:
    """The last traceback, with the whole chain of exceptions it belongs to; None: there is none."""
    headers = [number for number in range(len(lines)) if _is_header(lines, number)]
    if not headers:
        return _headless_crash(lines)
    chain = _chain(lines, headers)
    end = _end(lines, chain[-1])
    return _crash(lines, chain, end)


def _is_header(lines: Sequence[str], number: int) -> bool:
    # TensorFlow quotes the traceback of a py_function inside its own message, with an empty line after each line.
    quoted = number + 1 < len(lines) and not lines[number + 1]
    aftermath = number > 0 and _AFTERMATH.match(lines[number - 1])
    return bool(_HEADER.match(lines[number])) and not quoted and not aftermath


def _chain(lines: Sequence[str], headers: list[int]) -> list[int]:
    chain = [headers[-1]]
    for header in reversed(headers[:-1]):
        if not any(_bare(line) in _CONNECTORS for line in lines[chain[0] - 3 : chain[0]]):
            break
        chain.insert(0, header)
    return chain


def _end(lines: Sequence[str], start: int) -> int:
    return next((number for number in range(start, len(lines)) if _AFTERMATH.match(lines[number])), len(lines))


def _headless_crash(lines: Sequence[str]) -> Crash | None:
    """What prints no header: a fault's dump of the stack, or a script that does not compile."""
    for number in reversed(range(len(lines))):
        if _NATIVE_DUMP.match(lines[number]):
            end = next(
                (at for at in range(number, len(lines)) if lines[at].startswith("Extension modules:")), len(lines)
            )
            return _dump(lines[number:end])
    if lines and _SYNTAX_ERROR.match(lines[-1]):
        starts = [number for number in range(max(0, len(lines) - 5), len(lines)) if _FRAME.match(lines[number])]
        return _crash(lines, starts[:1], len(lines)) if starts else None
    return None


def _dump(block: Sequence[str]) -> Crash:
    frames = _own_frames(block)
    raised = Raised("\n".join(block), block[0], frames[0] if frames else None)
    return Crash((raised,), _clipped(_shortened(block)), logged=False, went_on=False, ends_log=True)


def _crash(lines: Sequence[str], chain: list[int], end: int) -> Crash:
    seen = Counter(map(_masked, lines))
    segments = [_segment(lines[start:stop], seen) for start, stop in zip(chain, [*chain[1:], end], strict=True)]
    after = [line for line in _message(segments[-1])[1:] if _is_outer(line) and not _NATIVE_LOG.match(line)]
    before = {_masked(line) for line in lines[: chain[0]]}
    head = lines[max(0, chain[0] - 1)]
    return Crash(
        chain=tuple(map(_raised, segments)),
        excerpt=_clipped(_shortened([line for segment in segments for line in segment])),
        logged=bool(_LOGGED.search(head)) and not _NATIVE_LOG.match(head),
        went_on=any(_masked(line) in before for line in after),
        ends_log=not after,
    )


def _raised(segment: Sequence[str]) -> Raised:
    message = _message(segment)
    frames = _own_frames(segment)
    return Raised("\n".join(message), _summary(message), frames[-1] if frames else None)


def _segment(block: Sequence[str], seen: Counter[str]) -> list[str]:
    """One traceback without what other threads printed into it, whole lines or into the middle of one."""
    between = {_masked(line) for line in block[1 : _named(block)] if _is_outer(line)}
    foreign = [
        re.escape(line).replace("\\#", r"[\d#]+") for line in between if seen[line] > 1 and not _HEADER.match(line)
    ]
    text = "".join(f"{line}\n" for line in block)
    return re.sub(f"(?:{'|'.join(foreign)})\n", "", text).split("\n")[:-1] if foreign else list(block)


def _is_outer(line: str) -> bool:
    return bool(line) and not line[0].isspace()


def _named(segment: Sequence[str]) -> int:
    """Where the exception is named, after the frames; the end where it is not."""
    for number, line in enumerate(segment):
        outer = _is_outer(line) or line.startswith("  | ")
        if outer and number > 0 and _EXCEPTION.match(_bare(line)) and not _HEADER.match(line):
            return number
    return len(segment)


def _message(segment: Sequence[str]) -> list[str]:
    """From the line that names the exception to the end of what it says."""
    stop = next((at for at, line in enumerate(segment) if line in _CONNECTORS and _is_real(segment, at)), len(segment))
    return list(segment[_named(segment) : stop])


def _is_real(segment: Sequence[str], connector: int) -> bool:
    return connector >= len(segment) - 3


def _summary(message: Sequence[str]) -> str:
    if not message:
        return ""
    found = _EXCEPTION.match(_bare(message[0]))
    name, text = (found["name"], found["message"] or "") if found else ("", message[0])
    detail = _GRAPH_NODE.sub("", _OPERATION.sub("", text))
    if detail in ("", "Graph execution error:"):
        detail = next((line for line in message[1:] if _says_something(line)), "")
    return f"{name}: {detail.strip()}"[:WIDTH] if detail else name


def _says_something(line: str) -> bool:
    return bool(line.strip()) and not line.startswith(("Detected at node", "<stack traces", "  File ", "\t"))


def _own_frames(block: Iterable[str]) -> list[str]:
    found = (_FRAME.match(line) for line in block)
    return [f"{frame['path']}:{frame['line']}" for frame in found if frame and not _LIBRARY.search(frame["path"])]


def _shortened(block: Sequence[str]) -> list[str]:
    """At most a screenful: first without library frames, then without the middle."""
    lines = [line for line in block if line and not _NATIVE_LOG.match(line)]
    if len(lines) > SCREENFUL:
        lines = _without_library_frames(lines)
    if len(lines) > SCREENFUL:
        head = SCREENFUL // 3
        rest = SCREENFUL - head - 1
        lines = [*lines[:head], f"  [{len(lines) - head - rest} lines left out]", *lines[-rest:]]
    return lines


def _without_library_frames(lines: Sequence[str]) -> list[str]:
    kept: list[str] = []
    library = False
    for line in lines:
        frame = _FRAME.match(line)
        if frame or not line.startswith("    "):
            library = bool(frame and _LIBRARY.search(frame["path"]))
        if not library and line.strip(" ^~"):
            kept.append(line)
    return kept


def _masked(line: str) -> str:
    return re.sub(r"\d+", "#", line)


def _bare(line: str) -> str:
    return line.strip().lstrip("|+ ")


def _clipped(lines: Iterable[str]) -> tuple[str, ...]:
    return tuple(line if len(line) <= WIDTH else line[: WIDTH - 4] + " ..." for line in lines)
