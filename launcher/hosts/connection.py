"""The connection to one agent: a thread that connects, writes what waits, and turns what it reads into events."""

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
"""Bytes that a login shell may print before the agent's greeting."""
PATIENCE = 2.0
"""Seconds without a greeting after which the user is told that the launcher waits for a host."""
LONG_CONNECT = 10.0
"""Seconds after which a host that is still connecting frees its slot for another."""
MOST_BACKLOG = 1 << 22
"""Bytes of one host's events that may wait in the inbox, where each event counts..."""
EVENT_COST = 1 << 12
"""...as many bytes at least."""
BACKLOG_POLL = 0.01
"""Seconds between two looks whether the backlog has room again."""
TRIES = 6
"""How often to try a connection that an overloaded sshd drops. By default sshd drops 30 % of new connections once ten
wait for their login, then more (MaxStartups)."""
PAUSE = 0.25
"""Seconds before the second try. It doubles with each try, with jitter, so that hosts do not retry all at once."""
BEAT = encode(Beat())


class NoEndError(Exception):
    """A login shell prints without end, so that the agent never starts."""


class Connection:
    """One agent: commands go to it, its messages come back as events.

    Only the connection's own thread waits for the host, and `close`, for a limited time. Commands may be sent at once:
    they are kept until the agent has greeted, and sent again with every try to connect.
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
        """Guards `_process`, `_early` and `_wake`, and decides who ends the connection first. Its holder never writes
        to the host or waits for anything, so any thread may take it."""
        self._process: AgentProcess | None = None
        self._early: list[bytes] | None = []
        """Frames sent before the agent has greeted; None afterwards."""
        self._wake = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        """An eventfd that tells the thread to look at the outbox, or at `_ended`; -1 once the thread has ended."""
        self._ended = threading.Event()
        """Set when the agent is lost or closing: no event of it follows."""
        self._started = threading.Event()
        """Set once the first try has started the agent's process, or could not."""
        self._awaited_from = 0.0
        """When the wait for a greeting began; infinite once the user was told of it."""
        self._heard_at = time.monotonic()
        self._thread = threading.Thread(target=self._run, name=f"agent of {name}", daemon=True)
        self._thread.start()

    # ---- for all threads
    def await_start(self, until: float) -> None:
        """Wait until the agent's process has started or cannot start, but not beyond `until` (monotonic)."""
        self._started.wait(max(0.0, until - time.monotonic()))

    def beat(self) -> None:
        """Send a heartbeat, which renews the lease and is answered. A host that does not read has only one queued."""
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
        """Write what the pipe takes now; the thread writes the rest."""
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
        """The ssh command line for the host, up to its name; empty for this machine."""
        return self._access.ssh

    @property
    def lost(self) -> bool:
        """Whether the agent is lost or closing: nothing more comes from it."""
        return self._ended.is_set()

    @property
    def silence(self) -> float:
        """Seconds since the agent last sent anything; 0 before its greeting, for which ssh has its own time limit."""
        return time.monotonic() - self._heard_at if self._early is None and not self._ended.is_set() else 0.0

    def post(self, event: events.Event) -> None:
        """Put an event about the host into the inbox."""
        self._inbox.put(event)

    def give_up(self, reason: str) -> None:
        """Drop the host: `HostLost` at once, with this reason. Does not wait for any process to end."""
        self._lose(Complaint(reason))
        process = self._process
        if process is not None:
            process.kill()
        self._wake_thread()

    def begin_to_close(self) -> None:
        """Tell the agent to end; `close` waits for it. Call this for all hosts first, so that they end together."""
        self._ended.set()
        process = self._process
        if process is not None:
            process.hang_up()
            if self._early is not None and self.ssh_words:
                process.kill()  # ssh does not read its stdin while it connects
        self._wake_thread()

    def close(self) -> None:
        """End the agent, which stops whatever still runs, and wait for that."""
        self.begin_to_close()
        self._thread.join(4 * GOODBYE)  # no longer than that: a process may hang in the kernel

    def _lose(self, complaint: Complaint) -> None:
        with self._lock:
            if not self._ended.is_set():
                # Posted before `lost` is true: a caller that sees `lost` and then empties the inbox gets this event,
                # too, and never takes it for one of the host's next connection.
                self.post(events.HostLost(self.name, complaint.reason, complaint.remedy))
                self._ended.set()

    # ---- in the connection's own thread
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
        """Connect, then handle messages until the connection ends; return why it ended."""
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
        """Start an agent with all frames so far in its outbox; return what followed its greeting, None without one."""
        with contextlib.ExitStack() as slot:
            slot.enter_context(self._slots)
            if self._ended.is_set():
                return None
            try:
                process = self._access.start()
            finally:
                self._started.set()
            with self._lock:
                self._process = process
                for frame in self._early or ():
                    process.outbox.add(frame)
            if self._ended.is_set():
                process.kill()
            return self._after_greeting(process, slot)

    def _after_greeting(self, process: AgentProcess, slot: contextlib.ExitStack) -> bytes | None:
        """Skip what a login shell prints before the greeting; return what follows it, None if none came."""
        tail, skipped = b"", 0
        now = time.monotonic()
        self._awaited_from = self._awaited_from or now
        due = [(self._awaited_from + PATIENCE, self._post_awaited), (now + LONG_CONNECT, slot.close)]
        while not self._ended.is_set():
            data = self._next_data(process, due[0][0] if due else math.inf)
            if data is None:
                due.pop(0)[1]()
                continue
            if not data:
                break
            noise, greeting, rest = (tail + data).partition(GREETING)
            if greeting:
                self._heard_at = time.monotonic()
                with self._lock:
                    self._early = None
                return rest
            tail = noise[-len(GREETING) :]
            skipped += len(data)
            if skipped > MOST_NOISE:
                raise NoEndError
        return None

    def _post_awaited(self) -> None:
        if self.ssh_words and self._awaited_from < math.inf:
            self.post(events.HostAwaited(self.name, self._access.destination()))
        self._awaited_from = math.inf

    def _next_data(self, process: AgentProcess, until: float = math.inf) -> bytes | None:
        """The next bytes; empty at their end, or once the connection is closing; None after `until` (monotonic)."""
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
        decoder, size = Decoder(), 0
        while True:
            size += len(data)
            for head, body in decoder.feed(data):
                event = self._messages.event(head, body)
                if event is not None:
                    self._post_in_turn(event, size)
                    size = 0
            following = self._next_data(process)
            if not following:
                return
            data = following
            self._heard_at = time.monotonic()

    def _post_in_turn(self, event: events.Event, size: int) -> None:
        """Backpressure: a host that sends more than the main thread handles is not read meanwhile. Other hosts are."""
        while self._backlog.size > MOST_BACKLOG and not self._ended.wait(BACKLOG_POLL):
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
        """Hang up and wait for the end. What the agent still sends is read and dropped, or ssh would block on it."""
        process.hang_up()
        until = time.monotonic() + GOODBYE
        while (data := process.read(self._wake, until)) != b"" and time.monotonic() < until:
            self._clear_wake()
        process.close(patience=GOODBYE if data == b"" else 0.0)
