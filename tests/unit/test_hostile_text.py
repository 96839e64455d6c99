"""No text that a worker or a host can write costs more than its length: every pattern and every reader is linear.

The patterns are found in the sources, so that a new one cannot be forgotten. The texts are made of each pattern's own
pieces: what it repeats is repeated, behind what leads there, and never ended as it should be. Time is that of this
thread's processor, and what counts is how it grows with the text; a pattern that takes far too long is broken off.
"""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import pytest
from support.growth import OF_A_PATTERN, OF_A_READER, grows_too_fast

from launcher.cluster.spec import Task
from launcher.console.attempt_text import AttemptText
from launcher.console.terminal import Look
from launcher.hosts.events import TaskExited
from launcher.hosts.ssh_complaint import explained
from launcher.run.failure.ending import Ending
from launcher.run.failure.failure import Runtime
from launcher.run.failure.interrupted import last_places
from launcher.run.failure.report import report

parser: Any = importlib.import_module("re._parser")

ROOT = Path(__file__).resolve().parents[2]


SEARCHING = {"search", "sub", "subn", "split", "findall", "finditer"}
ANCHORED = {"match", "fullmatch"}


# ---- hostile texts
def first_of_set(items: list[Any], choice: int) -> str:
    """A character of a set: that of its first, second... element; for a negated set one that is not in it."""
    if items[0][0] is parser.NEGATE:
        return next(each for each in "a :/'x1\n" if not any(in_set(each, item) for item in items[1:]))
    kind, value = items[choice % len(items)]
    if kind is parser.RANGE:
        return chr(value[0])
    return of_category(value) if kind is parser.CATEGORY else chr(value)


def in_set(character: str, item: Any) -> bool:
    kind, value = item
    if kind is parser.RANGE:
        return bool(value[0] <= ord(character) <= value[1])
    return of_category(value) == character if kind is parser.CATEGORY else ord(character) == value


def of_category(category: object) -> str:
    name = str(category)
    spaces, digits, words = "SPACE" in name, "DIGIT" in name, "WORD" in name
    if "NOT" in name:
        return "a" if spaces or digits else " "
    return " " if spaces else "1" if digits else "a" if words else "?"


def sample(sequence: Any, choice: int) -> str:
    """A text that a part of a pattern fits; `choice` picks among its alternatives."""
    return "".join(sample_of(kind, value, choice) for kind, value in sequence)


def sample_of(kind: object, value: Any, choice: int) -> str:
    if kind is parser.LITERAL:
        return chr(value)
    if kind is parser.NOT_LITERAL:
        return "a" if value != ord("a") else "b"
    if kind is parser.ANY:
        return "a"
    if kind is parser.IN:
        return first_of_set(value, choice)
    if kind is parser.BRANCH:
        return sample(value[1][choice % len(value[1])], choice)
    if kind is parser.SUBPATTERN:
        return sample(value[-1], choice)
    if kind is parser.ATOMIC_GROUP:
        return sample(value, choice)
    if is_repeat(kind):
        return sample(value[2], choice) * max(1, value[0])
    return ""


def is_repeat(kind: object) -> bool:
    return kind in (parser.MAX_REPEAT, parser.MIN_REPEAT, parser.POSSESSIVE_REPEAT)


def pumps(sequence: Any, before: str, choice: int) -> Iterator[tuple[str, str]]:
    """What leads to a part of a pattern, and the part: each stretch between repetitions, and what they repeat."""
    items = list(sequence)
    edges = [0, *(at for n, (kind, _) in enumerate(items) if is_repeat(kind) for at in (n, n + 1)), len(items)]
    for first in sorted(set(edges)):
        lead = before + sample(items[:first], choice)
        yield from ((lead, sample(items[first:last], choice)) for last in sorted(set(edges)) if last > first)
    for n, (kind, value) in enumerate(items):
        lead = before + sample(items[:n], choice)
        inner = [value[2]] if is_repeat(kind) else value[1] if kind is parser.BRANCH else []
        inner = [value[-1]] if kind is parser.SUBPATTERN else inner
        for part in inner:
            yield from pumps(part, lead, choice)


def hostile_texts(pattern: re.Pattern[Any]) -> set[tuple[str, str, str]]:
    """Beginning, what is repeated, and end."""
    source = pattern.pattern if isinstance(pattern.pattern, str) else pattern.pattern.decode("latin-1")
    tree = parser.parse(source, pattern.flags & ~re.UNICODE)
    found = {pump for choice in range(3) for pump in pumps(tree, "", choice) if pump[1]}
    return {(lead, pump, end) for lead, pump in found for end in ("", "\n!")}


def slow_text(pattern: re.Pattern[Any], *, anchored: bool = False) -> tuple[str, str, str] | None:
    """A text on which the pattern takes more than linear time; None: there is none among those that are tried."""
    method = pattern.match if anchored else pattern.search
    is_text = isinstance(pattern.pattern, str)

    def run(words: tuple[str, str, str], size: int) -> object:
        lead, pump, end = words
        text = lead + (pump * (size // len(pump) + 1))[:size] + end
        return method(text if is_text else text.encode("latin-1", "replace"))

    return next(
        (words for words in sorted(hostile_texts(pattern)) if grows_too_fast(partial(run, words), OF_A_PATTERN)), None
    )


# ---- all patterns of the launcher, and of what it sends to hosts
NOBODYS_TEXT = ("launcher.__main__", "launcher.bootstrap", "launcher.cluster.file")
"""What reads nothing but the user's own files."""


class Module(NamedTuple):
    """Read and imported."""

    name: str
    inside: list[Any]
    """The attributes and calls in its functions and classes."""
    in_variables: list[Any]
    """Those that make a variable of the module."""
    loaded: ModuleType


SOURCES = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
    for path in sorted((ROOT / "launcher").rglob("*.py"))
}
"""By the names of their modules."""


@cache
def modules() -> list[Module]:
    found = []
    for name, path in SOURCES.items():
        if not name.startswith(NOBODYS_TEXT):
            module = Module(name, [], [], importlib.import_module(name))
            found.append(module)
            for statement in ast.parse(path.read_bytes()).body:
                nodes = module.in_variables if isinstance(statement, ast.Assign | ast.AnnAssign) else module.inside
                nodes += [node for node in ast.walk(statement) if isinstance(node, ast.Attribute | ast.Call)]
    return found


def used_for_searching() -> set[str]:
    """Names of patterns that are looked for anywhere in a text, not just at its beginning."""
    return {f"{module} {name}" if name.startswith("_") else name for module, name in searches()}


def searches() -> Iterator[tuple[str, str]]:
    """Modules, and the names of patterns by which they search."""
    for module in modules():
        for node in [*module.inside, *module.in_variables]:
            if isinstance(node, ast.Attribute) and node.attr in SEARCHING:
                pattern = node.value.func if isinstance(node.value, ast.Call) else node.value  # a lazy one is called
                if isinstance(pattern, ast.Name):
                    yield module.name, pattern.id
            if is_call_of_re(node) and node.func.attr in SEARCHING:
                yield from ((module.name, each.id) for each in ast.walk(node.args[0]) if isinstance(each, ast.Name))


def is_call_of_re(node: Any) -> bool:
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and isinstance(node.func.value, ast.Name)
        and node.func.value.id == "re"
        and node.func.attr in SEARCHING | ANCHORED | {"compile"}
    )


def is_lazy(value: Any) -> bool:
    """Whether a value is a `lazy_pattern`."""
    made = getattr(value, "__wrapped__", None)
    return isinstance(made, partial) and made.func is re.compile


def texts_in(value: Any) -> Iterator[Any]:
    """Strings, bytes and patterns in a value, however deep in tuples and dictionaries."""
    if isinstance(value, str | bytes | re.Pattern):
        yield value
    elif is_lazy(value):
        yield value()
    elif isinstance(value, Mapping):
        yield from (text for pair in value.items() for each in pair for text in texts_in(each))
    elif isinstance(value, tuple | list | set | frozenset):
        yield from (text for each in value for text in texts_in(each))


def is_for_people(text: Any) -> bool:
    """A text of several lines, or a remedy. (What is compiled is a pattern.)"""
    if isinstance(text, re.Pattern):
        return False
    words = text if isinstance(text, str) else text.decode("latin-1")
    return "\n" in words or "{host}" in words


def compiled(text: Any) -> re.Pattern[Any] | None:
    """The pattern that a text is, if it repeats anything."""
    try:
        pattern = text if isinstance(text, re.Pattern) else re.compile(text, re.MULTILINE)
    except (re.error, ValueError, OverflowError):
        return None
    source = pattern.pattern if isinstance(pattern.pattern, str) else pattern.pattern.decode("latin-1")
    return pattern if re.search(r"[*+{]", source) else None


@cache
def all_patterns() -> tuple[dict[str, tuple[re.Pattern[Any], bool]], set[str]]:
    """Each by its place, and whether it is tried at the beginning only; and calls whose pattern is not known here."""
    searching, found, unknown = used_for_searching(), {}, set()
    for name, inside, _, loaded in modules():
        for key, value in vars(loaded).items():
            for n, text in enumerate(texts_in(value) if not key.startswith("__") else ()):
                pattern = None if is_for_people(text) else compiled(text)
                if pattern is not None:
                    alone = isinstance(value, re.Pattern | str | bytes) or is_lazy(value)
                    found[f"{name}.{key}[{n}]"] = pattern, alone and searching.isdisjoint({key, f"{name} {key}"})
        for call in filter(is_call_of_re, inside):
            try:
                text = eval(compile(ast.Expression(call.args[0]), name, "eval"), vars(loaded))
            except NameError:
                unknown.add(f"{name}: {ast.unparse(call.args[0])}")
                continue
            pattern = compiled(text)
            if pattern is not None:
                anchored = call.func.attr in ANCHORED
                found.setdefault(f"{name}:{call.lineno}", (pattern, anchored))
    return found, unknown


FROM_TABLES = {
    "launcher.on_host.agent.ports: LISTENS % port",
    "launcher.console.startup_noise: self._rest",
    "launcher.console.terminal: sequences",
    "launcher.run.failure.remedies: pattern",
    "launcher.run.failure.remedies: said",
    "launcher.run.failure.restart_policy: pattern",
    "launcher.run.request: reserved",
    "launcher.hosts.ssh_complaint: pattern",
}
"""Calls in which a variable goes through a table of its module, which is looked through as a whole."""


@pytest.mark.parametrize("room", sorted({".".join(name.split(".")[:2]) for name in SOURCES} - {"launcher"}))
def test_a_pattern_takes_no_longer_than_its_text_is(room: str) -> None:
    patterns, _ = all_patterns()
    own = {place: found for place, found in patterns.items() if re.match(rf"{room}[.:]", place)}

    slow = {place: slow_text(pattern, anchored=anchored) for place, (pattern, anchored) in own.items()}
    assert {place: text for place, text in slow.items() if text} == {}


# ---- all readers of what workers and hosts write
PIECES = (
    *(
        "#",
        "1#",
        "a",
        "1 1 ",
        "[0.1 nan] ",
        "é\u202e ",
        "\x1b[31m",
        "\x1b]0;",
        "\r",
        "| + ",
        "A.b: ",
        "E0000 00:00:1.1    4 a.cc:1] ",
    ),
    *(
        "Coordination service ",
        "Collective ops is aborted by: ",
        "{{function_node ",
        "tf-launch: 1s/step ",
        "connect to host ",
    ),
    *("KeyboardInterrupt", "tensorflow.python.framework.errors_impl.E: "),
)


HEAD = "Traceback (most recent call last):\n"
FRAME = '  File "a.py", line 1, in f\n    f()\n'
CONNECTOR = "\nDuring handling of the above exception, another exception occurred:\n\n"
GROUP = '  + Exception Group Traceback (most recent call last):\n  |   File "a.py", line 1, in f\n  | ExceptionGroup: '


def times(text: str, size: int) -> str:
    return text * (size // len(text) + 1)


SHAPES: dict[str, Callable[[str, int], str]] = {
    "a long line": lambda piece, size: f"{times(piece, size)}\n",
    "a long message": lambda piece, size: f"{HEAD}{FRAME}ValueError: {times(piece, size)}\n",
    "a long line among frames": lambda piece, size: f"{HEAD}{FRAME}{times(piece, size)}\n{FRAME}ValueError: no\n",
    "many lines": lambda piece, size: times(f"{piece}\n", size),
    "many lines of a message": lambda piece, size: HEAD + FRAME + "ValueError: no\n" + times(f"{piece}\n", size),
    "many lines among frames, and before": lambda piece, size: (
        times(f"{piece}\n", size // 2) + HEAD + times(f"{piece}\n{FRAME}", size // 2) + "ValueError: no\n"
    ),
    "many frames": lambda piece, size: f"{HEAD}{times(FRAME, size)}ValueError: {piece}\n",
    "many exceptions": lambda piece, size: times(f"{HEAD}{FRAME}ValueError: {piece}\n{CONNECTOR}", size),
    "many groups": lambda piece, size: times(f"{GROUP}{piece}\n", size),
    "many lines that differ": lambda piece, size: (
        HEAD + "".join(f"{n}{piece}{n:x}\n" for n in range(size // (len(piece) + 6))) + "ValueError: no\n"
    ),
    "a native dump": lambda piece, size: f"Fatal Python error: {times(piece, size // 2)}\n{times(FRAME, size // 2)}",
}


def understand(text: str) -> None:
    event = TaskExited("gpu-b", Task("worker", 0), 1, None, False, text.encode(errors="replace"))
    for stopped in (False, True):
        report(Ending(event, stopped, runtime=Runtime("python")).failure)
    list(last_places([Ending(event, stopped=True)], lambda _, place: place))


def show(text: str) -> None:
    tasks = [Task("worker", n) for n in range(2)]
    shown = AttemptText(tasks, Look(terminal=True, colour=True))
    data = text.encode(errors="replace")
    for number, half in enumerate((data[: len(data) // 2], data[len(data) // 2 :])):
        for task in tasks:
            list(shown.feed(task, half, now=number * 10.0))
        shown.interrupt()
    for task in tasks:
        shown.end_log(task, now=20.0)


def explain(text: str) -> None:
    explained(text, "exit code 255", "gpu-b", [])


@pytest.mark.parametrize("read", [understand, show, explain])
@pytest.mark.parametrize("shape", SHAPES)
def test_reading_takes_no_longer_than_the_text_is(shape: str, read: Callable[[str], None]) -> None:
    def run(piece: str, size: int) -> None:
        read(SHAPES[shape](piece, size))

    assert [piece for piece in PIECES if grows_too_fast(partial(run, piece), OF_A_READER)] == []


def test_no_pattern_is_overlooked() -> None:
    patterns, unknown = all_patterns()

    assert unknown <= FROM_TABLES
    assert len(patterns) > 190


QUADRATIC = [r"a+.*b", r"\s+$", r"\bopen\([^,]*\)", r"\d[\d:]*s\b", r".*x.*y"]
EXPONENTIAL = [r"(a+)+$", r"(a|a)*b", r"(.*)*\n\n"]
LINEAR = [r"a.{0,100}b", r"(?<!\s)\s+$", r"\d{4}-\d\d", r"(?:\w+\.)*x$"]


@pytest.mark.parametrize("source", QUADRATIC + EXPONENTIAL)
def test_a_pattern_that_takes_longer_is_found(source: str) -> None:
    assert slow_text(re.compile(source)) is not None


@pytest.mark.parametrize("source", EXPONENTIAL)
def test_so_is_one_that_is_tried_at_the_beginning_only(source: str) -> None:
    assert slow_text(re.compile(source), anchored=True) is not None


@pytest.mark.parametrize("source", LINEAR)
def test_a_pattern_that_does_not_is_not(source: str) -> None:
    assert slow_text(re.compile(source), anchored=source == r"(?:\w+\.)*x$") is None
