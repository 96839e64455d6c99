"""The examining agent: the loop of the plain one, and what is asked of it besides."""

from __future__ import annotations

import select
import time

from launcher.on_host.agent.loop import Agent
from launcher.on_host.agent.reach import explained
from launcher.on_host.agent.workers import StartError
from launcher.on_host.examiner.messages import (
    COMMANDS,
    AskProgram,
    CountBytes,
    CountingBytes,
    GateTried,
    MeasureSpeed,
    ProgramNotRun,
    TellProgram,
    TryGate,
)
from launcher.on_host.examiner.questions import Question
from launcher.on_host.examiner.throughput import Counting, Measuring, not_measured


class Examiner(Agent):
    """One question and one measurement at a time."""

    known = COMMANDS

    def __init__(self, guard_gone: int) -> None:
        super().__init__(guard_gone)
        self.question: Question | None = None
        self.counting: Counting | None = None
        self.measuring: Measuring | None = None
        self.reached: dict[str, str] = {}
        """Which address answered, of each one that was dialled: it may have been a name."""
        self.doers |= {
            AskProgram: self.ask,
            TellProgram: self.say,
            TryGate: self.answer_whether_gate,
            CountBytes: self.count,
            MeasureSpeed: self.measure,
        }

    def ask(self, asked: AskProgram) -> None:
        try:
            self.question = Question(asked, self.tell)
        except StartError as error:
            self.tell(ProgramNotRun(str(error)))
            return
        self.question.say(asked.said, last=False)

    def say(self, asked: TellProgram) -> None:
        if self.question is not None:
            self.question.say(asked.said, asked.last)

    def answer_whether_gate(self, _: TryGate) -> None:
        self.try_gate()
        self.tell(GateTried(self.gate_trouble or ""))

    def count(self, _: CountBytes) -> None:
        if self.answering is not None:
            self.answering.close()
            self.answering = None
        try:
            self.counting = Counting([each.getsockname()[1] for each in self.held.values()])
            self.tell(CountingBytes(""))
        except OSError as error:
            self.tell(CountingBytes(explained(error)))

    def measure(self, asked: MeasureSpeed) -> None:
        try:
            address = self.reached.get(asked.address, asked.address)
            self.measuring = Measuring(address, asked.port, asked.size, asked.seconds)
        except OSError as error:
            self.tell(not_measured(explained(error)))

    def tell_dialled(self) -> None:
        """Also keep where names were found."""
        if self.dialling is not None:
            self.reached.update(self.dialling.reached)
        super().tell_dialled()

    def tell_measured(self) -> None:
        """Report once the measurement is over."""
        if self.measuring is not None and self.measuring.result is not None:
            self.tell(self.measuring.result)
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
