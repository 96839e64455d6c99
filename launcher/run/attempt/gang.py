"""The gang of one attempt: an event and the time in, actions out. It owns all state of the attempt. Pure."""

from __future__ import annotations

import math
import signal as signals
from collections.abc import Iterator, Mapping

from launcher.cluster.cluster import Timeouts
from launcher.cluster.plan import AttemptPlan, is_off
from launcher.cluster.spec import Task, has_coordinator
from launcher.cluster.task_names import counted
from launcher.hosts import events
from launcher.on_host.agent.rest import AT_REST, PATIENCE
from launcher.run.attempt.actions import Action, AttemptResult, StartAgain, StopGang, Tell, WatchEvaluator
from launcher.run.attempt.endings import Endings
from launcher.run.attempt.lone_workers import LoneWorkers
from launcher.run.attempt.start_watch import StartWatch
from launcher.run.attempt.step_watch import StepWatch
from launcher.run.failure.ending import Ending
from launcher.run.failure.failure import EndingEvent, LastStep, Runtime
from launcher.run.failure.misplaced_servers import sharing, waiting_elsewhere
from launcher.run.failure.report import headline
from launcher.wording import listed

SETTLE = 0.05
"""Seconds between a telling failure and the stop of the gang: time for another one of the same moment."""
COLLATERAL_SETTLE = 2.0
"""The same after a mere complaint about a peer: the peer itself may still be busy dying."""
SILENCE = 12.0
"""Seconds after the last grace until a host that has not reported itself empty is given up: its agent is frozen."""
WAITED_FOR: Mapping[events.Awaited, str] = {
    "process": "had not started",
    "server": "was waited for by the others in vain",
}

SERVERS = ("worker", "ps")
"""Task types that serve a chief which coordinates."""


class Gang:
    """The tasks of one attempt, which live and die together, but for the workers that a coordinator can do without."""

    def __init__(self, plan: AttemptPlan, timeouts: Timeouts, lone: LoneWorkers, now: float) -> None:
        self._plan = plan
        self._timeouts = timeouts
        self._lone = lone
        self._hosts = {each.task: each.host for each in plan.tasks}
        self._running = set(self._hosts)
        self._open_logs: set[Task] = set()
        self._occupied = set(self._hosts.values())
        self._endings = Endings(self._hosts)
        self._interrupted: int | None = None
        self._stopping = False
        self._stop_at: float | None = None
        self._training_done = False
        """It was, before anything was stopped."""
        self._evaluator_until: float | None = None
        """Until then an evaluator may go on. None: the training is not done, or there is none."""
        self._starts = StartWatch(self._hosts, timeouts.start, now)
        self._steps = StepWatch(timeouts.stall)
        self._resting: set[Task] = set()
        """Told to stop, and waiting in TensorFlow ever since."""
        self._rest_from: float | None = None
        """When the running ones may be ended if all of them rest; None: nobody was told to stop, or they were ended."""
        self._reports: dict[Task, tuple[int | None, float]] = {}
        """The step in the newest report of progress of each task, and when it came."""
        self._abandoned = False
        self._give_up_at: float | None = None

    # ---- what the loop asks
    @property
    def over(self) -> bool:
        """Nothing of the attempt is left on any host, and every log has arrived whole."""
        return self._stopping and not self._occupied and (self._abandoned or not self._open_logs)

    @property
    def deadline(self) -> float | None:
        """When `step` wants to be called at the latest, event or not."""
        if self._evaluator_until is not None and not self._stopping:
            return self._evaluator_until
        running = [self._stop_at, self._steps.deadline, self._starts.deadline, self._lone.deadline]
        stopping = [
            self._give_up_at if self._occupied else None,
            self._rest_from if self._all_rest else None,
        ]
        due = stopping if self._stopping else running
        return min((at for at in due if at is not None), default=None)

    @property
    def result(self) -> AttemptResult:
        """How the attempt ended, once it is `over`."""
        done = self._endings.training_done and self._interrupted is None
        succeeded = done and not self._endings.failures
        endings = self._endings.telling(self._lone.losses)
        return AttemptResult(succeeded, endings, self._interrupted, self._lone.restarts, self._training_done)

    # ---- what happens
    def step(self, event: events.Event | None, now: float) -> Iterator[Action]:
        """Take one event (None: only time has passed) and yield what is to be done."""
        for action in self._reactions(event, now):
            if isinstance(action, StopGang):
                self._give_up_at = now + action.grace + SILENCE
            yield action

    def _reactions(self, event: events.Event | None, now: float) -> Iterator[Action]:
        self._note(event, now)
        match event:
            case events.TaskExited():
                yield from self._exited(event, now)
            case events.TaskStartFailed():
                yield from self._start_failed(event, now)
            case events.HostLost():
                yield from self._lost(event)
            case events.EvaluatorDone() if not self._stopping:
                yield from self._stop_gang()
            case events.PortShared() if not self._stopping:
                # By hand the second server would have failed; TF_GRPC_REUSE_PORT, which launch sets, let it start.
                yield from self._fail(event, f"{event.host}: {sharing(event)}")
            case events.StopRequested():
                yield from self._asked_to_end(f"{event.host} was asked to end the run")
            case events.Interrupted():
                yield from self._interrupt(event.signal, _name(event.signal))
            case _:
                yield from self._news(event, now)
        yield from self._pass_time(now)

    def _news(self, event: events.Event | None, now: float) -> Iterator[Action]:
        """What the user is told of an event that changes nothing."""
        match event:
            case events.ProcessesSurvived():
                yield Tell(f"{event.host}: these processes could not be killed: {listed([*map(str, event.pids)])}")
            case events.ProgressMade():
                yield from _told(self._steps.note(event, now))
            case events.TaskWaitsElsewhere() if self._is_dialled(event.task):
                yield Tell(waiting_elsewhere(event, PATIENCE, self._runtime(event.task)))

    def _is_dialled(self, task: Task) -> bool:
        """An evaluator is a cluster of its own, and so is a worker alone: nobody dials them."""
        dialled = {each for each in self._hosts if each.type != "evaluator"}
        return task in dialled and len(dialled) > 1

    def _note(self, event: events.Event | None, now: float) -> None:
        match event:
            case events.TaskStarted():
                self._starts.unstarted.discard(event.task)
                self._open_logs.add(event.task)
            case events.TaskListening():
                self._starts.note_server(event.task, now)
                self._lone.note_server(event.task)
            case events.ProgressMade():
                self._reports[event.task] = event.step, now
            case events.TaskResting():
                (self._resting.add if event.resting else self._resting.discard)(event.task)
            case events.LogEnded():
                self._open_logs.discard(event.task)
            case events.HostEmpty():
                self._occupied.discard(event.host)

    def _start_failed(self, event: events.TaskStartFailed, now: float) -> Iterator[Action]:
        if self._lone.can_miss(event.task) and not self._stopping:
            yield from self._lose(self._ending(event), event.task, now)
            return
        self._end(event.task, self._ending(event, self._stopping))
        self._running -= self._starts.unstarted
        self._starts.unstarted.clear()
        if not self._stopping:
            yield from self._stop_gang()

    def _exited(self, event: events.TaskExited, now: float) -> Iterator[Action]:
        is_evaluator = event.task.type == "evaluator"
        of_no_account = self._stopping or (self._training_done and not is_evaluator)
        ending = self._ending(event, of_no_account, now)
        if self._lone.can_miss(event.task) and not (of_no_account or event.succeeded):
            yield from self._lose(ending, event.task, now)
            return
        self._end(event.task, ending)
        if self._stopping:
            yield from self._member_gone(now)
        elif self._endings.training_done:
            self._training_done = True
            yield from self._finish(now)
        elif event.succeeded and event.task.type in SERVERS and has_coordinator(self._hosts):
            yield Tell(
                f"{event.task} on {event.host} has ended (exit code 0) before the chief; "
                "with server.join() it serves until the launcher ends it"
            )
        elif is_evaluator and not event.succeeded:
            yield Tell(
                f"{headline(ending.failure)}\n  the training goes on without it; the run will end with exit code 1",
                error=True,
            )
        elif not event.succeeded and not self._endings.is_forgiven(ending):
            settle = SETTLE if ending.failure.is_conclusive else COLLATERAL_SETTLE
            self._stop_at = min(self._stop_at or now + settle, now + settle)
            if not self._running:
                self._stop_at = now

    def _finish(self, now: float) -> Iterator[Action]:
        """The training is done. What still serves it is stopped, once an evaluator has seen the last checkpoint."""
        evaluator = next((task for task in self._running if task.type == "evaluator"), None)
        if evaluator is None or not self._timeouts.evaluator:
            yield from self._stop_gang()
        elif self._evaluator_until is None:
            self._evaluator_until = now + self._timeouts.evaluator
            limit = f"{self._timeouts.evaluator:g} s"
            yield Tell(f"the training is done; {evaluator} has {limit} for the last checkpoint (timeouts.evaluator)")
            yield WatchEvaluator(evaluator)

    def _lose(self, ending: Ending, task: Task, now: float) -> Iterator[Action]:
        """A worker has ended that the chief can do without, as long as there is another one or it comes back."""
        self._running.discard(task)
        delay = self._lone.lose(ending, task, now)
        if self._lone.all_are_gone:
            self._stop_at = min(self._stop_at or math.inf, now + COLLATERAL_SETTLE)
            goes_on = "no worker is left, and the chief would wait for one for ever"
        elif delay is None:
            goes_on = "the chief goes on without it"
        else:
            goes_on = f"the chief goes on; {task} is started again in {delay:g} s ({self._lone.counted_restarts})"
        yield Tell(f"{headline(ending.failure)}\n  {goes_on}", error=True)

    def _ending(self, event: EndingEvent, stopped: bool = False, now: float = 0.0) -> Ending:
        if isinstance(event, events.HostLost | events.TimedOut | events.Stalled):
            return Ending(event, stopped)
        step, at = self._reports.get(event.task, (None, 0.0))
        last = LastStep(step, now - at) if isinstance(event, events.TaskExited) and step is not None else None
        return Ending(event, stopped, last, self._runtime(event.task))

    def _runtime(self, task: Task) -> Runtime:
        plan = self._plan.of(task)
        keras_fix, tf_config = (plan.env.get(name, "0") for name in ("LAUNCH_KERAS_FIX", "LAUNCH_TF_CONFIG"))
        return Runtime(plan.interpreter, has_keras_fix=not is_off(keras_fix), has_tf_config=not is_off(tf_config))

    def _end(self, task: Task, ending: Ending) -> None:
        self._endings.add(ending)
        self._running.discard(task)
        self._starts.unstarted.discard(task)

    def _lost(self, event: events.HostLost) -> Iterator[Action]:
        self._endings.add(self._ending(event, self._stopping))
        self._occupied.discard(event.host)
        gone = {task for task, host in self._hosts.items() if host == event.host}
        self._running -= gone
        self._starts.unstarted -= gone
        self._open_logs -= gone
        if self._stopping:
            yield Tell(f"{event.host} was lost: {event.reason}")
        else:
            yield from self._stop_gang(f"{event.host} was lost: ")

    # ---- how it ends
    def _pass_time(self, now: float) -> Iterator[Action]:
        if self._stopping:
            yield from self._give_up_silent(now)
            yield from self._end_rest(now)
        elif self._evaluator_until is not None:
            yield from self._await_evaluator(self._evaluator_until, now)
        else:
            for task in self._lone.take_due(now):
                self._running.add(task)
                yield StartAgain(task)
            yield from self._pass_time_of_training(now)

    def _pass_time_of_training(self, now: float) -> Iterator[Action]:
        if self._stop_at is not None and now >= self._stop_at:
            yield from self._stop_gang()
        elif overdue := self._starts.overdue(now):
            awaited, task = overdue
            limit = self._timeouts.start
            reason = f"{task} {WAITED_FOR[awaited]} within timeouts.start ({limit:g} s)"
            yield from self._fail(events.TimedOut(self._hosts[task], task, awaited, limit), reason)
        elif self._steps.stalls_at is not None and now >= self._steps.stalls_at:
            limit = self._timeouts.stall or 0.0
            reason = f"no worker made a step for {limit:g} s (timeouts.stall)"
            yield from self._fail(events.Stalled(limit, self._steps.last_step), reason)
        else:
            yield from _told(self._steps.warning(now))

    def _await_evaluator(self, until: float, now: float) -> Iterator[Action]:
        if now >= until:
            limit = f"{self._timeouts.evaluator:g} s"
            yield Tell(
                f"the evaluator was not done with the last checkpoint after {limit} (timeouts.evaluator): stopped"
            )
            yield from self._stop_gang()

    def _give_up_silent(self, now: float) -> Iterator[Action]:
        if self._give_up_at is not None and now >= self._give_up_at:
            for host in sorted(self._occupied):
                yield from self._lost(events.HostLost(host, "its agent does not answer any more"))

    def _fail(self, event: EndingEvent, reason: str) -> Iterator[Action]:
        """Something other than the end of a worker or a host brings the gang down."""
        self._endings.add(self._ending(event))
        yield from self._stop_gang(f"{reason}: ")

    def _stop_gang(self, why: str = "") -> Iterator[Action]:
        yield from self._stop(signals.SIGTERM, self._timeouts.failure_grace, why)

    def _stop(self, number: int, grace: float, why: str = "") -> Iterator[Action]:
        if self._running and self._interrupted is None and not self._endings.training_done:
            how = f"{_name(number)}; SIGKILL follows after {grace:g} s"
            yield Tell(f"{why}stopping {_counted(self._running)} by {how}")
        self._stopping = True
        self._rest_from = 0.0
        yield StopGang(number, grace)

    def _asked_to_end(self, reason: str) -> Iterator[Action]:
        """What is stopped already after a failure is given its grace, but it is not started again."""
        if not self._stopping:
            yield from self._interrupt(signals.SIGTERM, reason)
        elif self._interrupted is None and not self._endings.training_done:
            self._interrupted = signals.SIGTERM
            yield Tell(reason)

    def _interrupt(self, number: int, reason: str) -> Iterator[Action]:
        if self._interrupted is not None or self._stopping:
            again = "" if self._interrupted is None else " again"
            self._interrupted = self._interrupted or number
            self._abandoned = not self._occupied
            self._stopping = True
            yield Tell(f"{reason}{again}: killing {_counted(self._running)}")
            yield StopGang(signals.SIGKILL, 0)
            return
        self._interrupted = number
        passed_on = signals.SIGINT if number == signals.SIGINT else signals.SIGTERM
        short = self._timeouts.failure_grace
        whole = len(self._running | self._lone.lost) == len(self._hosts)
        grace = self._timeouts.grace if whole else short
        yield Tell(
            f"{reason}: stopping {_counted(self._running)} by {_name(passed_on)}; SIGKILL follows after "
            f"{grace:g} s, or {short:g} s after the first of them has ended; workers that only wait in "
            f"TensorFlow are ended after {AT_REST:g} s. Ctrl-C again kills at once."
        )
        yield from self._stop(passed_on, grace)

    def _member_gone(self, now: float) -> Iterator[Action]:
        """With a peer gone nobody can save any more: the grace gets short. What outlives all workers must end, too."""
        yield StopGang(0 if self._running else signals.SIGTERM, self._timeouts.failure_grace)
        if self._rest_from is not None:
            self._rest_from = now + AT_REST  # the end of a peer wakes those that waited for it

    @property
    def _all_rest(self) -> bool:
        return bool(self._running) and self._running <= self._resting

    def _end_rest(self, now: float) -> Iterator[Action]:
        """A wait in TensorFlow ends by no signal but SIGKILL. As long as one of them saves, it may need the others."""
        if self._rest_from is not None and now >= self._rest_from and self._all_rest:
            self._rest_from = None
            if not self._endings.training_done:
                yield Tell(f"{_named(self._running)} only waited in TensorFlow for {AT_REST:g} s: ended")
            yield StopGang(signals.SIGKILL, 0)


def _told(text: str | None) -> Iterator[Action]:
    if text is not None:
        yield Tell(text)


def _counted(tasks: set[Task]) -> str:
    return counted(tasks) if tasks else "what is left"


def _named(tasks: set[Task]) -> str:
    return listed([str(task) for task in sorted(tasks)])


def _name(number: int) -> str:
    return signals.Signals(number).name
