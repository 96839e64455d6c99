"""The raw bytes of all workers of an attempt -> what is shown of them, each line behind a name. Pure."""

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
"""Bytes rendered at a time: this much stays in the processor's cache and in memory that need not be fetched anew."""


class AttemptText:
    """What the workers have written, as far as it matters for what comes. Times are seconds on any steady clock."""

    def __init__(self, tasks: Sequence[Task], look: Look, show_all: bool = False) -> None:
        """Begin.

        Args:
            tasks: those that are shown.
            look: of the output.
            show_all: TensorFlow's start-up notices, too, and each worker's lines on their own.
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
        """The user has stopped the attempt: what only this makes the workers print is left out, unless all is shown."""
        if self._folding is not None:
            for text in self._texts.values():
                text.interrupt()

    def feed(self, task: Task, data: bytes, now: float) -> Iterable[bytes]:
        """Take the next bytes of a worker's log; yield what they make visible."""
        text = self._texts.get(task)
        if text is not None:
            for at in range(0, len(data), PIECE):
                yield self._rendered(self._said(task, text.feed(data[at : at + PIECE]), now))
                yield self._bar(task, text.due_bar(now), now)

    def end_log(self, task: Task, now: float) -> bytes:
        """A worker's log has ended: its last line counts even without a newline, and nobody waits for another one."""
        text = self._texts.get(task)
        if text is None:
            return b""
        last = self._said(task, text.flush(), now)
        if self._folding is not None:
            self._folding.stop_waiting_for(task)
        return self._rendered(last)

    def flush_due(self, now: float) -> bytes:
        """Return what has waited long enough for the same of other workers."""
        return self._rendered(self._folding.flush_due(now)) if self._folding is not None else b""

    def flush(self) -> bytes:
        """Return all that still waits."""
        return self._rendered(self._folding.flush()) if self._folding is not None else b""

    @property
    def next_due(self) -> float | None:
        """When `flush_due` will return something; None: nothing waits."""
        return self._folding.next_due if self._folding is not None else None

    @property
    def left_out_noise(self) -> bool:
        """Whether start-up notices were there that are not shown."""
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
