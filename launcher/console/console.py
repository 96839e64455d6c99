"""The console: every worker's log as `[worker 0] line` on stdout, the launcher's own lines on stderr.

A slow or stopped terminal or pipe blocks nothing: a thread of its own writes to it. Its backlog is bounded, because a
host sends only so much of a log ahead of what was written and acknowledged. The raw logs are in files; the console is
only a view of them. What several workers print within 0.3 s is shown once, as `[workers 0-1] line`.
"""

from __future__ import annotations

import os
import posixpath
import time
from collections.abc import Callable, Mapping
from functools import partial

from launcher.cluster.redaction import redacted_text
from launcher.cluster.spec import Task, chief_of, in_order
from launcher.console.attempt_text import AttemptText
from launcher.console.lines import behind
from launcher.console.terminal import BOLD, RED, Look
from launcher.console.writer import Writer, no_alarm
from launcher.wording import harmless

STDOUT, STDERR = 1, 2


class Console:
    """Shows the workers' logs and the launcher's own lines. Only `drain` and `close` block.

    Worker lines go to stdout, the launcher's to stderr; each stream keeps its order, in whole lines. Each has its own
    thread, so that a stopped reader of stdout hides no error. Where both are the same file, one thread keeps the order.
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
            acknowledge: called in the writing thread with the number of bytes of a log that were shown. Must not block.
            quiet: show only the chief's log and the launcher's errors.
            show_noise: keep TensorFlow's start-up notices, and show each worker's lines even if others print the same.
            no_color: no colours, even on a terminal.
            environ: where `NO_COLOR`, `FORCE_COLOR` and `TERM` are looked up; by default the process's own.
            stdout: the descriptor for the workers' lines.
            stderr: the descriptor for the launcher's lines.
        """
        self._acknowledge = acknowledge
        self._quiet = quiet
        self._show_noise = show_noise
        environ = os.environ if environ is None else environ
        self._out_look = Look.of(stdout, environ, no_color)
        self._err_look = Look.of(stderr, environ, no_color)
        same = os.path.sameopenfile(stdout, stderr)
        self._err = Writer(stderr, _ignored, self._show_due if same else no_alarm)
        self._out = self._err if same else Writer(stdout, self._say_broken, self._show_due)
        self._text: AttemptText | None = None
        """Of the current attempt; used only by the thread that writes to stdout."""
        self._log_directory = ""
        self._told_of_noise = False

    def begin_attempt(self, logs: Mapping[Task, str]) -> None:
        """An attempt starts. `logs`: its tasks, and the path of each one's raw log, for messages."""
        self._out.submit(partial(self._begin_attempt, dict(logs)))

    def show_log(self, task: Task, data: bytes) -> None:
        """Show the next raw bytes of a task's log."""
        self._out.submit(partial(self._show_log, task, data))

    def interrupt(self) -> None:
        """The user has stopped the attempt: hide the tracebacks of the interrupt itself."""
        self._out.submit(self._interrupt)

    def end_log(self, task: Task) -> None:
        """The task's log has ended: show its last line even without a newline."""
        self._out.submit(partial(self._end_log, task))

    def say(self, text: str, *, error: bool = False) -> None:
        """Show one or more lines of the launcher's own; a quiet console shows errors only.

        Secrets are redacted and control characters escaped. A caller that quotes a host or a worker makes one line of
        the quotation (`harmless_line`), so that no part of it looks like a line of the launcher.
        """
        if self._quiet and not error:
            return
        prefix = self._err_look.painted(b"[launch]", RED if error else BOLD) + b" "
        self._err.submit(partial(self._write_own, behind(prefix, _encoded(harmless(redacted_text(text))) + b"\n")))

    def drain(self, timeout: float | None = None) -> bool:
        """Wait up to `timeout` seconds (None: for ever) until all output so far is written; return whether it is."""
        deadline = None if timeout is None else time.monotonic() + timeout
        self._out.submit(self._show_rest)
        # stdout first: where it fails, `_say_broken` adds a line to stderr.
        return all(writer.wait_until_done(deadline) for writer in (self._out, self._err))

    def close(self, timeout: float | None = None) -> bool:
        """Drain, then end the threads; return whether all was written.

        If not, the threads keep trying. They are daemons: call `close` again, or let them end with the process.
        """
        drained = self.drain(timeout)
        for writer in {self._out, self._err} if drained else ():
            writer.finish()
        return drained

    # ---- in the threads that write
    def _begin_attempt(self, logs: Mapping[Task, str]) -> None:
        self._show_rest()
        tasks = [chief_of(logs)] if self._quiet else in_order(logs)
        self._text = AttemptText(tasks, self._out_look, self._show_noise)
        self._log_directory = posixpath.dirname(logs[tasks[0]])

    def _show_log(self, task: Task, data: bytes) -> None:
        if self._text is not None:
            for shown in self._text.feed(task, data, time.monotonic()):
                self._out.write(shown)
            if self._text.left_out_noise and not self._told_of_noise:
                self._told_of_noise = True
                where = f"the logs in {self._log_directory} have them"
                self.say(f"TensorFlow's start-up notices are left out here; {where}")
        self._acknowledge(task, len(data))

    def _interrupt(self) -> None:
        if self._text is not None:
            self._text.interrupt()

    def _end_log(self, task: Task) -> None:
        if self._text is not None:
            self._out.write(self._text.end_log(task, time.monotonic()))

    def _show_due(self) -> float | None:
        """Show the lines that have waited long enough; return the seconds until the next ones have."""
        if self._text is None:
            return None
        self._out.write(self._text.flush_due(time.monotonic()))
        next_due = self._text.next_due
        return None if next_due is None else max(0.0, next_due - time.monotonic())

    def _show_rest(self) -> None:
        if self._text is not None:
            self._out.write(self._text.flush())

    def _write_own(self, lines: bytes) -> None:
        if self._out is self._err:
            self._show_rest()  # lines of workers that came earlier stay above
        self._err.write(lines)

    def _say_broken(self, error: OSError) -> None:
        reason = "is closed" if isinstance(error, BrokenPipeError) else f"cannot be written ({error.strerror})"
        self.say(
            f"stdout {reason}: the workers' lines are no longer shown. The run goes on; its logs are in files.",
            error=True,
        )


def _encoded(text: str) -> bytes:
    # The name of a file may hold bytes that are not UTF-8; Python has them as surrogates.
    return text.encode("utf-8", "surrogateescape")


def _ignored(error: OSError) -> None:
    """Ignore it: without stderr, there is nowhere left to report this."""
