"""The connection to one agent, from its start to its end: a thread that writes what waits and hears what is said."""

from __future__ import annotations

import contextlib
import math
import os
import random
import threading
import time
from collections.abc import Iterable, Mapping, Sequence

from launcher.cluster.spec import Task
from launcher.hosts import events
from launcher.hosts.access import Access, NotStartedError
from launcher.hosts.agent_messages import AgentMessages
from launcher.hosts.agent_process import GOODBYE, AgentProcess
from launcher.hosts.inbox import Backlog, Inbox, QueuedEvent
from launcher.hosts.ssh_complaint import Complaint
from launcher.on_host.agent.fields import encode
from launcher.on_host.agent.framing import GREETING, MOST_FROM_LAUNCHER, Decoder, UnreadableError
from launcher.on_host.agent.messages import EVENTS, Beat, Command, Event

NO_SSH = "install OpenSSH's client (Debian, Ubuntu: apt install openssh-client)"
NO_END = "the login shell there prints without end"
NO_END_REMEDY = "look at its ~/.bashrc and ~/.profile, which may print only in a terminal"
MOST_NOISE = 1 << 20
"""Bytes that a login shell may print before the agent greets."""
PATIENCE = 2.0
"""Seconds without a first answer after which it is told that a host is waited for."""
LONG_TURN = 10.0
"""Seconds after which a host that is still connecting no longer keeps others from it."""
MOST_BACKLOG = 1 << 22
"""Bytes of what one host tells that may wait in the inbox, where each event counts..."""
EVENT_COST = 1 << 12
"""...as many bytes at least."""
TURN_LOOK = 0.01
"""Seconds between two looks whether there is room again."""
TRIES = 6
"""How often a connection is tried that an overloaded sshd dropped; its default drops 3 of 10 and more at a time."""
PAUSE = 0.25
"""Seconds before the second try; it doubles with each, and is spread so that many do not come back at once."""
BEAT = encode(Beat())


class NoEndError(Exception):
    """A login shell prints, and the agent does not get its turn."""


class Connection:
    """Nothing here waits for the host but the connection's own thread, and `close`, which has an end.

    Frames may be sent at once: they are kept until the agent has greeted, and sent anew with every try to connect.
    """

    def __init__(
        self,
        name: str,
        tasks: Iterable[Task],
        access: Access,
        inbox: Inbox,
        slots: threading.Semaphore,
        former: Connection | None = None,
        known: Mapping[str, type[Event]] = EVENTS,
    ) -> None:
        """Begin to connect.

        Args:
            name: the host's.
            tasks: those of the host.
            access: how its agent is started.
            inbox: gets each event.
            slots: one is held while connecting, so that not all hosts connect at once.
            former: the host's lost connection; it is closed first.
            known: all messages that the agent's program may send.
        """
        self.name = name
        self._inbox = inbox
        self._backlog = Backlog()
        self._access = access
        self._messages = AgentMessages(name, tasks, known)
        self._slots = slots
        self._former = former
        self._lock = threading.Lock()
        """Of the next three, and of the first to end it; nothing is written to a host or waited for under it."""
        self._process: AgentProcess | None = None
        self._early: list[bytes] | None = []
        """What was sent before the agent greeted; None: it has."""
        self._wake = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        """Readable once the thread has to look at the outbox, or at `_ended`; -1: there is none any more."""
        self._ended = threading.Event()
        """Nothing of this agent is told any more: it is closing, or was lost."""
        self._awaited_from = 0.0
        """Since when an answer is waited for; infinite: that has been told."""
        self._heard_at = time.monotonic()
        self._thread = threading.Thread(target=self._run, name=f"agent of {name}", daemon=True)
        self._thread.start()

    # ---- for all threads
    def beat(self) -> None:
        """Renew the lease; the agent answers. No more than one beat waits for a host that does not read."""
        with self._lock:
            if self._early is None and self._process is not None:
                self._process.outbox.add_once(BEAT)
        self._push()

    def send(self, command: Command) -> None:
        """Send the agent a command; the command's docstring names the answers."""
        self._messages.note(command)
        frame = encode(command, MOST_FROM_LAUNCHER)
        with self._lock:
            if self._early is not None:
                self._early.append(frame)
            if self._process is not None:
                self._process.outbox.add(frame)
        self._push()

    def _push(self) -> None:
        """What the host takes at once goes at once; the thread sees to the rest."""
        process = self._process
        if process is not None:
            process.outbox.push()
            if process.outbox.pipe is not None:
                self._wake_thread()

    def _wake_thread(self) -> None:
        with self._lock:
            if self._wake >= 0:
                os.eventfd_write(self._wake, 1)

    @property
    def ssh_words(self) -> Sequence[str]:
        """How ssh is called to reach the host, but for its name; nothing for this machine."""
        return self._access.ssh

    @property
    def lost(self) -> bool:
        """Nothing more will come from this agent."""
        return self._ended.is_set()

    @property
    def silence(self) -> float:
        """Seconds since the agent was heard last; 0 before it has greeted: ssh has a limit of its own for that."""
        return time.monotonic() - self._heard_at if self._early is None and not self._ended.is_set() else 0.0

    def post(self, event: events.Event) -> None:
        """Put what was found out about the host among the events."""
        self._inbox.put(event)

    def give_up(self, reason: str) -> None:
        """Whatever may still come is too late: `HostLost` at once, without waiting for anything to end."""
        self._lose(Complaint(reason))
        process = self._process
        if process is not None:
            process.kill()
        self._wake_thread()

    def begin_to_close(self) -> None:
        """Tell the agent to end; `close` waits for it. Hosts that end together take no longer than one."""
        self._ended.set()
        process = self._process
        if process is not None:
            process.hang_up()
            if self._early is not None and self.ssh_words:
                process.kill()  # in the middle of connecting, ssh would not notice
        self._wake_thread()

    def close(self) -> None:
        """End the agent: it stops whatever still runs, and is gone when this returns."""
        self.begin_to_close()
        self._thread.join(4 * GOODBYE)  # so long at most; what hangs in the kernel is left to itself

    def _lose(self, complaint: Complaint) -> None:
        with self._lock:
            if not self._ended.is_set():
                # told first: who finds it lost finds the event, too, and takes it for no word of a new connection
                self.post(events.HostLost(self.name, complaint.reason, complaint.remedy))
                self._ended.set()

    # ---- the connection's own thread
    def _run(self) -> None:
        if self._former is not None:
            self._former.close()
            self._former = None
        self._lose(self._converse())
        if self._process is not None:
            self._end_process(self._process)
        with self._lock:
            os.close(self._wake)
            self._wake = -1

    def _converse(self) -> Complaint:
        """Connect and listen; why there is no connection any more."""
        complaint = Complaint("")
        for attempt in range(TRIES):
            try:
                rest = self._connect()
                if rest is not None:
                    self._listen(rest)
                complaint = self._complaint()
            except NotStartedError as error:
                complaint = error.complaint
            except FileNotFoundError as error:
                complaint = Complaint(f"`{error.filename}` is not installed on this machine", NO_SSH)
            except OSError as error:
                complaint = Complaint(f"the way there cannot be started: {error.strerror or error}")
            except UnreadableError as error:
                complaint = Complaint(f"it sent something unreadable: {error}")
            except NoEndError:
                complaint = Complaint(NO_END, f"{NO_END_REMEDY}; try: ssh {self.name} true | head")
            is_last = attempt == TRIES - 1
            if is_last or self._early is None or not complaint.passing or self._ended.is_set():
                break
            if self._process is not None:
                self._end_process(self._process)
                with self._lock:
                    self._process = None
            self._ended.wait(PAUSE * 2**attempt * random.uniform(0.5, 1.5))
        return complaint

    def _connect(self) -> bytes | None:
        """Start an agent and let it read what was sent so far; what came behind its greeting, None if none came."""
        with contextlib.ExitStack() as turn:
            turn.enter_context(self._slots)
            if self._ended.is_set():
                return None
            process = self._access.start()
            with self._lock:
                self._process = process
                for frame in self._early or ():
                    process.outbox.add(frame)
            if self._ended.is_set():
                process.kill()
            return self._greeting(process, turn)

    def _greeting(self, process: AgentProcess, turn: contextlib.ExitStack) -> bytes | None:
        """Pass over what a login shell printed."""
        said, passed = b"", 0
        now = time.monotonic()
        self._awaited_from = self._awaited_from or now
        due = [(self._awaited_from + PATIENCE, self._post_that_it_is_awaited), (now + LONG_TURN, turn.close)]
        while not self._ended.is_set():
            data = self._next_data(process, due[0][0] if due else math.inf)
            if data is None:
                due.pop(0)[1]()
                continue
            if not data:
                break
            noise, greeting, rest = (said + data).partition(GREETING)
            if greeting:
                self._heard_at = time.monotonic()
                with self._lock:
                    self._early = None
                return rest
            said = noise[-len(GREETING) :]
            passed += len(data)
            if passed > MOST_NOISE:
                raise NoEndError
        return None

    def _post_that_it_is_awaited(self) -> None:
        if self.ssh_words and self._awaited_from < math.inf:
            self.post(events.HostAwaited(self.name, self._access.destination()))
        self._awaited_from = math.inf

    def _next_data(self, process: AgentProcess, until: float = math.inf) -> bytes | None:
        """What it says next, nothing at its end, or once nobody wants to hear it; None: it is later than `until`."""
        while not self._ended.is_set():
            data = process.read(self._wake, until)
            if data is not None:
                return data
            self._clear_wake()
            if time.monotonic() >= until:
                return None
        return b""

    def _listen(self, data: bytes) -> None:
        process = self._process
        assert process is not None
        decoder, came = Decoder(), 0
        while True:
            came += len(data)
            for head, body in decoder.feed(data):
                event = self._messages.event(head, body)
                if event is not None:
                    self._post_in_turn(event, came)
                    came = 0
            heard = self._next_data(process)
            if not heard:
                return
            data = heard
            self._heard_at = time.monotonic()

    def _post_in_turn(self, event: events.Event, size: int) -> None:
        """A host that tells more than can be dealt with waits, and fills no memory. The others need not wait for it."""
        while self._backlog.size > MOST_BACKLOG and not self._ended.wait(TURN_LOOK):
            pass
        if not self._ended.is_set():
            queued = QueuedEvent(event, max(size, EVENT_COST), self._backlog)
            self._backlog.grow(queued.size)
            self._inbox.put(queued)

    def _complaint(self) -> Complaint:
        if self._process is None or self._ended.is_set():
            return Complaint("")
        return self._access.explained(*self._process.last_words())

    def _clear_wake(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.eventfd_read(self._wake)

    def _end_process(self, process: AgentProcess) -> None:
        """Let it come to its end; what it still says is of no interest, but ssh must get rid of it."""
        process.hang_up()
        until = time.monotonic() + GOODBYE
        while (said := process.read(self._wake, until)) != b"" and time.monotonic() < until:
            self._clear_wake()
        process.close(patience=GOODBYE if said == b"" else 0.0)
