"""The examining agent: the loop of the plain one, and what is asked of it besides."""

from __future__ import annotations

import select
import time

from launcher.on_host.agent.loop import Agent
from launcher.on_host.agent.reach import explained
from launcher.on_host.agent.workers import StartError
from launcher.on_host.examiner.questions import Question
from launcher.on_host.examiner.throughput import Counting, Measuring


class Examiner(Agent):
    """One question and one measurement at a time."""

    def __init__(self, guard_gone: int) -> None:
        super().__init__(guard_gone)
        self.question: Question | None = None
        self.counting: Counting | None = None
        self.measuring: Measuring | None = None
        self.reached: dict[str, str] = {}
        """Which address answered, of each one that was dialled: it may have been a name."""

    def do_ask(self, argv: list[str], env: dict[str, str], cwd: str, seconds: float, body: bytes = b"") -> None:
        """Run a program, `body` on its stdin, for so long at most; answer what it says as it comes, then its end."""
        try:
            self.question = Question({"argv": argv, "env": env, "cwd": cwd}, seconds, self.tell)
        except StartError as error:
            self.tell("not_asked", reason=str(error))
            return
        self.do_say(body=body)

    def do_say(self, last: bool = False, body: bytes = b"") -> None:
        """More for the program's stdin."""
        if self.question is not None:
            self.question.say(body, last)

    def do_try_gate(self) -> None:
        """Answer whether strangers could be kept off the workers of a run."""
        self.try_gate()
        self.tell("gate_tried", reason=self.gate_trouble)

    def do_count(self) -> None:
        """From now on the held ports are there to be sent to."""
        if self.answering is not None:
            self.answering.close()
            self.answering = None
        try:
            self.counting = Counting([each.getsockname()[1] for each in self.held.values()])
            self.tell("counting", reason="")
        except OSError as error:
            self.tell("counting", reason=explained(error))

    def do_measure(self, address: str, port: int, size: int, seconds: float) -> None:
        """Find out how fast bytes get to an address where somebody counts them."""
        try:
            self.measuring = Measuring(self.reached.get(address, address), port, size, seconds)
        except OSError as error:
            self.tell("measured", reason=explained(error))

    def tell_dialled(self) -> None:
        """Also keep where names were found."""
        if self.dialling is not None:
            self.reached.update(self.dialling.reached)
        super().tell_dialled()

    def tell_measured(self) -> None:
        """Report once the measurement is over."""
        if self.measuring is not None and self.measuring.result is not None:
            self.tell("measured", **self.measuring.result)
            self.measuring = None

    # ---- beside all that an agent does
    def _ended(self, pid: int, status: int) -> None:
        if self.question is not None and self.question.pid == pid:
            self.question.ended(status)
            self.question = None
        else:
            super()._ended(pid, status)

    def keep_time(self) -> None:
        """Also of the question and of the measurement."""
        super().keep_time()
        now = time.monotonic()
        if self.question is not None and self.question.keep_time(now):
            self.question = None
        if self.measuring is not None and now >= self.measuring.until:
            self.measuring.give_up()
            self.tell_measured()

    def _timeout(self) -> float:
        due = [each.due for each in (self.question,) if each] + [each.until for each in (self.measuring,) if each]
        return max(0.0, min([super()._timeout(), *(moment - time.monotonic() for moment in due)]))

    def _poller(self) -> select.poll:
        poller = super()._poller()
        for part in (self.question, self.measuring):
            for fd, wanted in part.events.items() if part else ():
                poller.register(fd, wanted)
        for fd in self.counting.fds if self.counting else ():
            poller.register(fd, select.POLLIN)
        return poller

    def _serve(self, fd: int) -> None:
        if self.question is not None and fd in self.question.events:
            self.question.proceed(fd)
        elif self.measuring is not None and fd in self.measuring.events:
            self.measuring.proceed()
            self.tell_measured()
        elif self.counting is not None and fd in self.counting.fds:
            self.counting.proceed(fd)
        else:
            super()._serve(fd)
