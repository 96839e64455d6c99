"""The console: every worker's log as `[worker 0] line` on stdout, the launcher's own lines on stderr.

Nobody ever waits for a slow or stopped terminal or pipe: writing is done by a thread of its own, and how much may wait
for it is bounded by acknowledging what was written. The raw logs are in files; the console is only a view of them.
"""

from __future__ import annotations

import os
import select
import threading
import time
from collections.abc import Callable, Mapping
from functools import partial
from queue import SimpleQueue

from launcher.cluster import Task, chief_of, in_order
from launcher.console.lines import LineSplitter
from launcher.console.startup_noise import NoiseReader
from launcher.console.terminal import BOLD, DIM, RED, WORKER_COLOURS, Look

BAR_INTERVAL = 5.0
"""Seconds. A progress bar shows its last state when its line ends, and before that its newest state this often."""

PIECE = 64 << 10
"""Bytes rendered at a time: this much stays in the processor's cache and in memory that need not be fetched anew."""

STDOUT, STDERR = 1, 2


class WorkerText:
    """One worker's raw bytes -> its lines on the console. Pure: the time is an argument."""

    def __init__(self, prefix: bytes, look: Look, log: str, show_noise: bool = False) -> None:
        self._prefix = prefix
        self._look = look
        self._note = f"(TensorFlow's start-up notices are left out here; all are in {log})\n"
        self._show_noise = show_noise
        self._noted = False
        self._splitter = LineSplitter()
        self._noise = NoiseReader()
        self._bar_due: float | None = None

    def feed(self, data: bytes, now: float) -> bytes:
        """Return what the next bytes of the log make visible; `now` is in seconds, on any steady clock."""
        lines = self._splitter.feed(data)
        if lines:
            self._bar_due = None
        return self._rendered(lines) + self._due_bar(now)

    def flush(self) -> bytes:
        """Return what is left when the log has ended: a last line that had no newline gets one."""
        return self._rendered(self._splitter.flush())

    def _due_bar(self, now: float) -> bytes:
        bar = self._splitter.bar
        if not bar:
            return b""
        if self._bar_due is None or now >= self._bar_due:
            first, self._bar_due = self._bar_due is None, now + BAR_INTERVAL
            return b"" if first else self._prefixed(bar + b"\n")
        return b""

    def _rendered(self, lines: bytes) -> bytes:
        folding = not self._show_noise
        if (folding or self._look.colour) and lines and self._noise.may_hold_noise(lines):
            lines = b"".join(self._fold(lines) if folding else self._dim(lines))
        return self._prefixed(lines)

    def _dim(self, lines: bytes) -> list[bytes]:
        return [(DIM + line if noise else line) + b"\n" for line, noise in self._noise.marked(lines)]

    def _fold(self, lines: bytes) -> list[bytes]:
        kept = []
        for line, noise in self._noise.marked(lines):
            if not noise:
                kept.append(line + b"\n")
            elif not self._noted:
                self._noted = True
                kept.append(_encoded(self._note))
        return kept

    def _prefixed(self, lines: bytes) -> bytes:
        if not lines:
            return b""
        return _each_behind(self._prefix, self._look.shown(lines))


class _Writer:
    """One open file and the only thread that writes to it. Jobs run there one after the other."""

    def __init__(self, fd: int, on_broken: Callable[[OSError], None]) -> None:
        self._fd = fd
        self._on_broken = on_broken
        self._broken = False
        self._jobs: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name=f"console-{fd}", daemon=True)
        self._thread.start()

    def soon(self, job: Callable[[], None]) -> None:
        self._jobs.put(job)

    def finish(self) -> None:
        self._jobs.put(None)
        self._thread.join()

    def write(self, text: bytes) -> None:
        """Write all of it, however long that takes. Only for jobs. Nothing more is written once the file is broken."""
        rest = memoryview(text)
        while rest and not self._broken:
            try:
                rest = rest[os.write(self._fd, rest) :]
            except BlockingIOError:
                # Somebody who shares this file has made it non-blocking.
                select.select([], [self._fd], [])
            except OSError as error:
                self._broken = True
                self._on_broken(error)

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            job()


class Console:
    """Shows the logs of the workers and the launcher's own lines. Its methods never wait, but for `drain` and `close`.

    Worker lines go to stdout, the launcher's to stderr: each stream in order, in whole lines. Each has a thread of its
    own, so that a stopped reader of stdout hides no error; where both are the same file one thread keeps the order.
    """

    def __init__(
        self,
        acknowledge: Callable[[Task, int], None],
        *,
        quiet: bool = False,
        show_noise: bool = False,
        no_color: bool = False,
        environ: Mapping[str, str] | None = None,
        stdout: int = STDOUT,
        stderr: int = STDERR,
    ) -> None:
        """Start writing.

        Args:
            acknowledge: told, from the writing thread, how many of the bytes given to `write` are dealt with. Must not
                wait.
            quiet: only the chief's log and the launcher's errors are shown.
            show_noise: TensorFlow's start-up notices are shown like any other line, neither dimmed nor folded.
            no_color: no colours, even on a terminal.
            environ: where `NO_COLOR`, `FORCE_COLOR` and `TERM` are looked up; default: the process's own.
            stdout: the open file that takes the workers' lines.
            stderr: the open file that takes the launcher's lines.
        """
        self._acknowledge = acknowledge
        self._quiet = quiet
        self._show_noise = show_noise
        environ = os.environ if environ is None else environ
        self._out_look = Look.of(stdout, environ, no_color)
        self._err_look = Look.of(stderr, environ, no_color)
        self._err = _Writer(stderr, on_broken=_ignored)
        same = os.path.sameopenfile(stdout, stderr)
        self._out = self._err if same else _Writer(stdout, on_broken=self._say_broken)
        self._texts: dict[Task, WorkerText] = {}

    def begin(self, logs: Mapping[Task, str]) -> None:
        """An attempt starts: its tasks, and where a person finds each one's raw log."""
        self._out.soon(partial(self._begin, dict(logs)))

    def write(self, task: Task, data: bytes) -> None:
        """Show the next raw bytes of a task's log."""
        self._out.soon(partial(self._write, task, data))

    def end(self, task: Task) -> None:
        """The task's log has ended: its last line is shown even without a newline."""
        self._out.soon(partial(self._end, task))

    def say(self, text: str, *, error: bool = False) -> None:
        """Show a line or more of the launcher's own; a quiet console shows errors only."""
        if self._quiet and not error:
            return
        prefix = self._err_look.painted(b"[launch]", RED if error else BOLD) + b" "
        lines = self._err_look.shown(_encoded(text) + b"\n")
        self._err.soon(partial(self._err.write, _each_behind(prefix, lines)))

    def drain(self, timeout: float | None = None) -> bool:
        """Wait (seconds; None: for ever) until all that was given so far is written; return whether it is."""
        deadline = None if timeout is None else time.monotonic() + timeout
        # stdout first: its end may still have something to say on stderr.
        return all(_reached(writer, deadline) for writer in (self._out, self._err))

    def close(self, timeout: float | None = None) -> bool:
        """Drain, then end the threads; return whether all was written.

        If not, the threads (daemons) go on trying: close again, or leave them to the end of the process.
        """
        drained = self.drain(timeout)
        for writer in {self._out, self._err} if drained else ():
            writer.finish()
        return drained

    def _begin(self, logs: Mapping[Task, str]) -> None:
        tasks = [chief_of(logs)] if self._quiet else in_order(logs)
        width = max(len(str(task)) for task in tasks) + len("[] ")
        self._texts = {task: self._text(task, n, width, logs[task]) for n, task in enumerate(tasks)}

    def _text(self, task: Task, n: int, width: int, log: str) -> WorkerText:
        name = f"[{task}]".encode()
        padding = b" " * (width - len(name))
        prefix = self._out_look.painted(name, WORKER_COLOURS[n % len(WORKER_COLOURS)]) + padding
        return WorkerText(prefix, self._out_look, log, self._show_noise)

    def _write(self, task: Task, data: bytes) -> None:
        text = self._texts.get(task)
        if text is not None:
            for at in range(0, len(data), PIECE):
                self._out.write(text.feed(data[at : at + PIECE], time.monotonic()))
        self._acknowledge(task, len(data))

    def _end(self, task: Task) -> None:
        text = self._texts.get(task)
        if text is not None:
            self._out.write(text.flush())

    def _say_broken(self, error: OSError) -> None:
        reason = "is closed" if isinstance(error, BrokenPipeError) else f"cannot be written ({error.strerror})"
        self.say(
            f"stdout {reason}: the workers' lines are no longer shown. The run goes on; its logs are in files.",
            error=True,
        )


def _reached(writer: _Writer, deadline: float | None) -> bool:
    done = threading.Event()
    writer.soon(done.set)
    return done.wait(None if deadline is None else max(0.0, deadline - time.monotonic()))


def _each_behind(prefix: bytes, lines: bytes) -> bytes:
    # Megabytes at a time: no copy more than needed, no loop over the lines.
    prefixed = memoryview(lines.replace(b"\n", b"\n" + prefix))
    return b"".join((prefix, prefixed[: -len(prefix)]))


def _encoded(text: str) -> bytes:
    # File names may hold bytes that are no UTF-8; they come and go as surrogates.
    return text.encode("utf-8", "surrogateescape")


def _ignored(error: OSError) -> None:
    """With stderr gone there is nobody left to tell."""
