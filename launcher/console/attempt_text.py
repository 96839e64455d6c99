"""Turns the raw output of all workers of an attempt into prefixed lines. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from launcher.cluster.spec import Task
from launcher.cluster.task_names import named
from launcher.console.bars import RunningBars
from launcher.console.folding import Folding, SharedLines
from launcher.console.lines import behind
from launcher.console.terminal import BOLD, WORKER_COLOURS, Look
from launcher.console.worker_text import WorkerText

PIECE = 64 << 10
"""Bytes rendered at a time: few enough to stay in the processor's cache."""


class AttemptText:
    """The output of one attempt's workers. Times are seconds on any monotonic clock."""

    def __init__(self, tasks: Sequence[Task], look: Look, show_all: bool = False) -> None:
        """Start with no output.

        Args:
            tasks: the workers whose output is shown.
            look: what the terminal or file can show.
            show_all: keep TensorFlow's start-up notices, and show each worker's lines even if others print the same.
        """
        self._look = look
        self._texts = {task: WorkerText(show_all, look.colour) for task in tasks}
        self._folding = None if show_all else Folding(tasks)
        self._bars = RunningBars()
        width = max(len(f"[{task}] ") for task in tasks)
        self._prefixes: dict[tuple[Task, ...], bytes] = {
            (task,): self._prefix(str(task), WORKER_COLOURS[n % len(WORKER_COLOURS)], width)
            for n, task in enumerate(tasks)
        }

    def interrupt(self) -> None:
        """The user has stopped the attempt: hide what workers print only because of that, unless `show_all`."""
        if self._folding is not None:
            for text in self._texts.values():
                text.interrupt()

    def feed(self, task: Task, data: bytes, now: float) -> Iterable[bytes]:
        """Add the next bytes of a worker's log; yield what can be shown now."""
        text = self._texts.get(task)
        if text is not None:
            for at in range(0, len(data), PIECE):
                yield self._rendered(self._said(task, text.feed(data[at : at + PIECE]), now))
                yield self._bar(task, text.due_bar(now), now)

    def end_log(self, task: Task, now: float) -> bytes:
        """A worker's log has ended: return its last line, which may lack a newline. No line waits for this worker."""
        text = self._texts.get(task)
        if text is None:
            return b""
        last = self._said(task, text.flush(), now)
        if self._folding is not None:
            self._folding.stop_waiting_for(task)
        return self._rendered(last)

    def flush_due(self, now: float) -> bytes:
        """Return the lines that have waited long enough for other workers to print the same."""
        return self._rendered(self._folding.flush_due(now)) if self._folding is not None else b""

    def flush(self) -> bytes:
        """Return all lines that still wait."""
        return self._rendered(self._folding.flush()) if self._folding is not None else b""

    @property
    def next_due(self) -> float | None:
        """When `flush_due` will have something to return; None if no line waits."""
        return self._folding.next_due if self._folding is not None else None

    @property
    def left_out_noise(self) -> bool:
        """Whether any start-up notices were hidden."""
        return any(text.left_out_noise for text in self._texts.values())

    def _said(self, task: Task, lines: bytes, now: float) -> Iterable[SharedLines]:
        return self._folding.add(task, lines, now) if self._folding is not None else [SharedLines((task,), lines)]

    def _bar(self, task: Task, bar: bytes, now: float) -> bytes:
        if not bar or (self._folding is not None and not self._bars.is_news(task, bar, now)):
            return b""
        return self.flush() + self._rendered([SharedLines((task,), bar)])

    def _rendered(self, said: Iterable[SharedLines]) -> bytes:
        shown = [behind(self._prefix_of(tasks), self._look.shown(lines)) for tasks, lines in said if lines]
        return shown[0] if len(shown) == 1 else b"".join(shown)

    def _prefix_of(self, tasks: tuple[Task, ...]) -> bytes:
        if tasks not in self._prefixes:
            self._prefixes[tasks] = self._prefix(named(tasks), BOLD)
        return self._prefixes[tasks]

    def _prefix(self, name: str, colour: bytes, width: int = 0) -> bytes:
        label = f"[{name}]".encode()
        return self._look.painted(label, colour) + b" " * max(1, width - len(label))
