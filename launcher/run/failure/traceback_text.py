"""Finds in the end of a program's log the traceback with which it failed. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from launcher.run.failure.excerpt import NATIVE_LOG, WIDTH, of_traceback
from launcher.run.failure.frames import FRAME, own_places
from launcher.run.failure.numbers import with_short_rows, with_whole_array

MOST_FOREIGN = 20
"""Different lines of other threads that are looked for inside a traceback."""

_HEADER = re.compile(r"[ |+]*(?:Exception Group )?Traceback \(most recent call last\):$")
_IN_GROUP = re.compile(r" {4,}[|+]")
"""The tracebacks that an exception group holds stand further in than its own."""
_CONNECTORS = (
    "The above exception was the direct cause of the following exception:",
    "During handling of the above exception, another exception occurred:",
)
_AFTERMATH = re.compile(r"Exception ignored in|Error in atexit\._run_exitfuncs|Exception ignored on")
_NATIVE_DUMP = re.compile(r"Fatal Python error: ")
_SYNTAX_ERROR = re.compile(r"(?:SyntaxError|IndentationError|TabError): ")
_LOGGED = re.compile(r"\b(?:ERROR|CRITICAL|WARNING)\b|Exception in thread ")
_EXCEPTION = re.compile(r"(?:\w+\.)*(?P<name>_?[A-Z]\w*)(?:: (?P<message>.*)|:)?$")
_OPERATION = re.compile(r" \[Op:\w+\](?: name:.{0,300})?$")
_GRAPH_NODE = re.compile(r"\{\{function_node [^{}]*\}\} ?")
_CALLING = re.compile(r"Exception encountered when calling (?P<layer>[^\s,]+?)\.?(?:$|,)")
"""Keras 3 puts this before what a layer raised."""


@dataclass(frozen=True, slots=True)
class Raised:
    """One exception of a chain."""

    text: str
    """Its name and all that it says."""
    summary: str
    """The same in one line: `ValueError: labels out of range`."""
    location: str | None
    """`file:line` of the last frame that is the user's own code."""
    calls: tuple[str, ...] = ()
    """The lines above its name: the frames that led to it, each with its code."""


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


def last_crash(lines: Sequence[str]) -> Crash | None:
    """The last traceback, with the whole chain of exceptions it belongs to; None: there is none."""
    every = [number for number in range(len(lines)) if _is_header(lines, number)]
    headers = [number for number in every if not _IN_GROUP.match(lines[number])] or every
    if not headers:
        return _headless_crash(lines)
    chain = _chain(lines, headers)
    end = _end(lines, chain[-1])
    return _crash(lines, chain, end)


def _is_header(lines: Sequence[str], number: int) -> bool:
    aftermath = number > 0 and _AFTERMATH.match(lines[number - 1])
    return bool(_HEADER.match(lines[number])) and not _is_quoted(lines, number) and not aftermath


def _is_quoted(lines: Sequence[str], header: int) -> bool:
    # TensorFlow quotes the traceback of a py_function inside its own message, with an empty line after each line.
    return header + 1 < len(lines) and not lines[header + 1]


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
    """Find what prints no header: a fault's dump of the stack, or a script that does not compile."""
    for number in reversed(range(len(lines))):
        if _NATIVE_DUMP.match(lines[number]):
            end = next(
                (at for at in range(number, len(lines)) if lines[at].startswith("Extension modules:")), len(lines)
            )
            return _dump(lines[number:end])
    if lines and _SYNTAX_ERROR.match(lines[-1]):
        starts = [number for number in range(max(0, len(lines) - 5), len(lines)) if FRAME.match(lines[number])]
        return _crash(lines, starts[:1], len(lines)) if starts else None
    return None


def _dump(block: Sequence[str]) -> Crash:
    frames = own_places(block)
    raised = Raised("\n".join(block), block[0], frames[0] if frames else None)
    return Crash((raised,), of_traceback(block, ()), logged=False, went_on=False, ends_log=True)


def _crash(lines: Sequence[str], chain: list[int], end: int) -> Crash:
    seen = Counter(map(_masked, lines))
    segments = [_segment(lines[start:stop], seen) for start, stop in zip(chain, [*chain[1:], end], strict=True)]
    after = [line for line in _message(segments[-1])[1:] if _is_outer(line) and not NATIVE_LOG.match(line)]
    before = {_masked(line) for line in lines[: chain[0]]}
    calls = [line for segment in segments for line in segment]
    calls = calls[: len(calls) - len(segments[-1]) + _named(segments[-1])]
    head = lines[max(0, chain[0] - 1)]
    return Crash(
        chain=tuple(map(_raised, segments)),
        excerpt=of_traceback(calls, segments[-1][_named(segments[-1]) :]),
        logged=bool(_LOGGED.search(head)) and not NATIVE_LOG.match(head),
        went_on=any(_masked(line) in before for line in after),
        ends_log=not after,
    )


def _raised(segment: Sequence[str]) -> Raised:
    message = _message(segment)
    places = own_places(segment)
    return Raised(
        text="\n".join(message),
        summary=_summary(_quoted(message) or message),
        location=places[-1] if places else None,
        calls=tuple(segment[: _named(segment)]),
    )


def _segment(block: Sequence[str], seen: Counter[str]) -> list[str]:
    """One traceback without what other threads printed into it, whole lines or into the middle of one."""
    between = {_masked(line): line for line in block[1 : _named(block)] if _is_outer(line) and not _HEADER.match(line)}
    foreign = [_words(line) for masked, line in between.items() if seen[masked] > 1][:MOST_FOREIGN]
    kept: list[str] = []
    begun = ""
    for line in block:
        own = _without_end(line, foreign)
        if own == line:
            kept.append(begun + line)
            begun = ""
        else:
            begun += own
    return [*kept, begun] if begun else kept


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


def _quoted(message: Sequence[str]) -> Sequence[str]:
    """What the user's function raised, from the line that names it, if TensorFlow's message quotes its traceback.

    The same may stand in what another thread logs in between. That is passed over: it may be of an earlier exception.
    """
    for header in reversed(range(1, len(message))):
        if _HEADER.match(message[header]) and _is_quoted(message, header) and not NATIVE_LOG.match(message[header - 1]):
            return message[header + _named(message[header:]) :]
    return ()


def _summary(message: Sequence[str]) -> str:
    if not message:
        return ""
    said = with_short_rows(with_whole_array(message))
    found = _EXCEPTION.match(_bare(said))
    name, text = (found["name"], found["message"] or "") if found else ("", said)
    detail = with_short_rows(_detail(text[: 4 * WIDTH], message[1:])).strip().removeprefix(f"{name}: ")
    return f"{name}: {detail}"[:WIDTH] if detail else name


def _detail(text: str, rest: Sequence[str]) -> str:
    """What an exception says in one line, where its first line is only an introduction."""
    detail = _GRAPH_NODE.sub("", _OPERATION.sub("", text))
    if detail in ("", "Graph execution error:"):
        return next(filter(_says_something, rest), "")
    if detail == "in user code:":
        return next((line for line in reversed(rest) if _EXCEPTION.match(_bare(line))), detail)
    if calling := _CALLING.match(detail):
        reason = next((line for line in rest if _says_something(line) and not line.endswith(":")), None)
        return f"{calling['layer']}: {reason.strip()}" if reason else detail
    return detail


def _says_something(line: str) -> bool:
    introductions = ("Detected at node", "<stack traces", "  File ", "\t")
    return bool(line.strip()) and not line.startswith(introductions) and not NATIVE_LOG.match(line)


def _masked(line: str) -> str:
    return re.sub(r"\d+", "#", line)


def _bare(line: str) -> str:
    return line.strip().lstrip("|+ ")


def _words(line: str) -> list[str]:
    """The line in pieces that are equal where lines differ in numbers only."""
    return [piece if not piece[0].isdigit() else "#" for piece in re.findall(r"\d+|\D+", line)]


def _without_end(line: str, foreign: Sequence[list[str]]) -> str:
    """The line without what another thread printed at its end."""
    pieces = re.findall(r"\d+|\D+", line)
    words = _words(line)
    for end in foreign:
        begin = len(words) - len(end)
        if begin >= 0 and words[begin + 1 :] == end[1:] and words[begin].endswith(end[0]):
            return "".join(pieces[:begin]) + words[begin].removesuffix(end[0])
    return line
