"""Shows once what several workers print within `MOMENT` seconds. Pure: lines and the time in, lines out.

A line waits until every worker that still writes has printed the same, or until the time is over. Each worker's lines
keep their order, and none is lost. When much is written at once, lines pass unfolded, so that memory stays bounded.
"""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from launcher.cluster.spec import Task

MOMENT = 0.3
"""Seconds that a line waits for other workers to print the same."""
MOST_LINES = 5000
"""Lines of all workers within `MOMENT`, above which they pass unfolded."""
MOST_BYTES = 1 << 20
"""Bytes that may wait; above that, lines pass unfolded."""

_OWN = b"tf-launch: "
"""The prefix of our own code in a worker. Every worker prints the same, but each when it gets to that import: such a
line is shown once in an attempt, however late the others are."""
_ESCAPE = rb"\x1b\[[0-9;]*m"
_STEP_TIME = (b"/step", b"/epoch")
_STAMP = rb"[IWEF]\d{4} \d\d:\d\d:[\d.]+ +\d+ |\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:[.,]\d+)?"
"""The prefix of a log line: TensorFlow's with the thread, or Python's."""
_TIME = rb"\b\d[\d:]{0,12}(?:s|ms|us)(?:/(?:step|epoch))?(?!\w)"


class SharedLines(NamedTuple):
    """Whole lines, and the workers that printed them."""

    tasks: tuple[Task, ...]
    lines: bytes


class _Held(NamedTuple):
    line: bytes
    meaning: bytes
    until: float


class Folding:
    """The lines of one attempt that wait for other workers to print the same."""

    def __init__(self, tasks: Iterable[Task]) -> None:
        """`tasks`: the workers whose lines are shown, in the order in which a prefix names them."""
        self._held: dict[Task, deque[_Held]] = {task: deque() for task in tasks}
        self._meanings: dict[Task, Counter[bytes]] = {task: Counter() for task in self._held}
        self._writing = set(self._held)
        self._waiting_bytes = 0
        self._own_said: set[bytes] = set()
        self._moment_ends = 0.0
        self._lines_now = self._lines_before = 0

    def add(self, task: Task, lines: bytes, now: float) -> list[SharedLines]:
        """Add a worker's next whole lines; return what to show now. `now`: seconds on any monotonic clock."""
        if not lines:
            return []
        if not self._can_wait(lines, now):
            return _joined([*self._alone(task), SharedLines((task,), lines)])
        for line in lines[:-1].split(b"\n"):
            held = _Held(line, _meaning(line), now + MOMENT)
            self._held[task].append(held)
            self._meanings[task][held.meaning] += 1
        self._waiting_bytes += len(lines)
        return self.flush_due(now)

    def flush_due(self, now: float) -> list[SharedLines]:
        """Return the lines that all workers have printed by now, and those that have waited long enough."""
        said: list[SharedLines] = []
        while (task := self._first_ready(now)) is not None:
            said += self._folded(task)
        return _joined(said)

    @property
    def next_due(self) -> float | None:
        """When `flush_due` will have something to return, at the latest; None if no line waits."""
        return min((held[0].until for held in self._held.values() if held), default=None)

    def stop_waiting_for(self, task: Task) -> None:
        """The worker writes no more."""
        self._writing.discard(task)

    def flush(self) -> list[SharedLines]:
        """Return all lines that still wait."""
        return self.flush_due(float("inf"))

    def _can_wait(self, lines: bytes, now: float) -> bool:
        if now >= self._moment_ends:
            calm = now >= self._moment_ends + MOMENT
            self._lines_before, self._lines_now = 0 if calm else self._lines_now, 0
            self._moment_ends = now + MOMENT
        self._lines_now += lines.count(b"\n")
        few = max(self._lines_now, self._lines_before) <= MOST_LINES
        return len(self._held) > 1 and few and self._waiting_bytes + len(lines) <= MOST_BYTES

    def _first_ready(self, now: float) -> Task | None:
        """Of the workers whose first line is ready, the one whose line has waited longest."""
        heads = [(held[0], task) for task, held in self._held.items() if held]
        ready = [each for each in heads if each[0].until <= now or self._said_by_all(each[0].meaning)]
        return min(ready, key=lambda each: each[0].until)[1] if ready else None

    def _said_by_all(self, meaning: bytes) -> bool:
        return meaning in self._own_said or all(meaning in self._meanings[task] for task in self._writing)

    def _folded(self, task: Task) -> Iterator[SharedLines]:
        """A worker's first line, together with all workers that have printed it; their earlier lines come first."""
        meaning = self._held[task][0].meaning
        sharing = [each for each in self._held if meaning in self._meanings[each]]
        for each in sharing:
            while self._held[each][0].meaning != meaning:
                yield from self._shared([each], self._held[each][0].meaning)
        yield from self._shared(sharing, meaning)

    def _shared(self, tasks: Sequence[Task], meaning: bytes) -> Iterator[SharedLines]:
        """Remove the first line of these workers, and of all others whose first line is the same."""
        sharing = [task for task, held in self._held.items() if task in tasks or (held and held[0].meaning == meaning)]
        lines = [self._pop(task) for task in sharing]
        if meaning not in self._own_said:
            yield SharedLines(tuple(sharing), lines[0] + b"\n")
        if meaning.startswith(_OWN):
            self._own_said.add(meaning)

    def _alone(self, task: Task) -> Iterator[SharedLines]:
        while self._held[task]:
            yield SharedLines((task,), self._pop(task) + b"\n")

    def _pop(self, task: Task) -> bytes:
        held = self._held[task].popleft()
        self._waiting_bytes -= len(held.line) + 1
        self._meanings[task][held.meaning] -= 1
        if not self._meanings[task][held.meaning]:
            del self._meanings[task][held.meaning]
        return held.line


def _meaning(line: bytes) -> bytes:
    """What two lines must have in common to be shown as one: all but timestamps, and the times in Keras's bars."""
    stamp = re.match(_STAMP, line)
    said = line[stamp.end() :] if stamp else line
    if not any(unit in said for unit in _STEP_TIME):
        return said
    return re.sub(_TIME, b"#", re.sub(_ESCAPE, b"", said))


def _joined(said: Iterable[SharedLines]) -> list[SharedLines]:
    """Join neighbours that have the same workers."""
    pieces: list[tuple[tuple[Task, ...], list[bytes]]] = []
    for tasks, lines in said:
        if not pieces or pieces[-1][0] != tasks:
            pieces.append((tasks, []))
        pieces[-1][1].append(lines)
    return [SharedLines(tasks, b"".join(lines)) for tasks, lines in pieces]
