"""All messages between launcher and agent. Both ends use these classes, and the tests check them all.

To add a message: write it here, then the code that sends it and the code that handles it.
"""

# No `from __future__ import annotations`: an annotation is the object that checks the field (`fields`).
from launcher.on_host.agent.fields import (
    AnyText,
    AnyWhole,
    Bulk,
    Count,
    ExitCode,
    Line,
    Long,
    Many,
    Message,
    Mode,
    NamedRow,
    Pid,
    Piece,
    Port,
    PortOrNone,
    SignalNumber,
    SignalOrNone,
    Tail,
    TimeNs,
    Whole,
    Words,
    by_name,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    Cpus = int
    Addresses = list[str]
else:
    Cpus = Whole(1, 2**20)
    Addresses = Many(Words, 1 << 16)


class Command(Message):
    """From the launcher to an agent."""


class Event(Message):
    """From an agent to the launcher."""


# ---- the host
class Hello(Command):
    """The first command. Answer: `Ready`, with the values of these environment variables."""

    lease: float
    """Seconds without anything from the launcher after which the agent ends everything."""
    variables: Long[str]


class Ready(Event):
    """The host's facts, sent once; see `launcher.on_host.agent.facts`."""

    python: str
    hostname: Words
    pid: Pid
    guard: Pid
    cpus: Cpus
    home: str
    machine: str
    addresses: Addresses
    ssh_connection: str
    environment: dict[str, str]
    time: float


class Beat(Command):
    """A heartbeat. Answer: `Alive`."""


class Alive(Event):
    """The answer to a heartbeat."""


class Put(Command):
    """Write files below the run's directory; `data` holds one after the other. Answer, only if that fails: `NotPut`."""

    root: AnyText
    files: Long[tuple[AnyText, Count]]
    """The path and size of each."""
    data: Bulk


class NotPut(Event):
    reason: Words


# ---- ports
class Reserve(Command):
    """Hold one port for each task, from `first` to `last` (both 0: any). Answer: `Reserved` or `NotReserved`.

    Until the workers start, the agent answers there to hosts that prove to know `word`, if that is not empty.
    """

    names: Long[str]
    first: PortOrNone
    last: PortOrNone
    word: str


class Reserved(Event):
    ports: dict[str, Port]


class NotReserved(Event):
    reason: Words


class Target(Message):
    """A port of another host, and the word that its agent knows."""

    id: str
    address: AnyText
    port: Port
    word: str


class DialPorts(Command):
    """Try to reach ports for `seconds`, after up to `look_up` seconds of resolving names. Answer: `DialResults`."""

    targets: Long[Target]
    seconds: float
    look_up: float


class DialResults(Event):
    """For each target's `id`: empty, or why it was not reached."""

    results: dict[str, Words]


class NoGate(Event):
    """Why strangers cannot be kept off the workers' ports here."""

    reason: Words


class Stranger(Event):
    """A connection to a task's port from an address that is no host of the run was refused."""

    task: str
    address: Words
    number: Count
    """Such addresses so far."""


# ---- workers
class WorkerStart(Message):
    """How one worker is started."""

    task: str
    argv: Long[AnyText]
    env: dict[str, AnyText]
    cwd: AnyText
    port: Port
    log: AnyText
    progress: AnyText


class Start(Command):
    """Start workers in this order, until one cannot be started. Answer for each: `Started` or `StartFailed`.

    `hold`: their ports stay held. `admitted`: who may connect to held ports: "all", the "hosts" of the run, or only
    "loopback". If a task's process has ended, the new one has the same port and continues its log.
    """

    workers: Long[WorkerStart]
    hold: bool
    admitted: str


class Started(Event):
    task: str
    pid: Pid


class StartFailed(Event):
    task: str
    reason: Words


class Listening(Event):
    """A worker's TensorFlow server is up."""

    task: str


class WaitsElsewhere(Event):
    """A worker with TensorFlow has been idle for long, and does not listen at its own port."""

    task: str
    own: Port
    ports: list[Port]
    """Where it listens instead."""
    connected: list[Words]
    """Peers that it is connected to."""
    dialled: list[Words]
    """Peers that it tries to connect to."""


class SharedPort(Event):
    """TensorFlow servers of several processes share a port: the task and pid of each."""

    port: Port
    processes: list[tuple[str, Pid]]


class LogPiece(Event):
    """The next bytes of a worker's log."""

    task: str
    offset: Count
    data: Piece


class Acknowledge(Command):
    """The console has shown so many more bytes of a log."""

    task: str
    count: Count


class Progress(Event):
    """The newest line of a worker's `LAUNCH_PROGRESS` file."""

    task: str
    line: Line


class Exited(Event):
    """A worker's process has ended, by itself (`code`) or by a signal."""

    task: str
    code: ExitCode | None
    signal: SignalNumber | None
    out_of_memory: bool
    log_disk_full: bool
    tail: Tail
    """The end of its log at that time."""


class LogShipped(Event):
    """A worker has ended, and its whole log was sent."""

    task: str


class AwaitEvaluator(Command):
    """Report when an evaluator has evaluated the last checkpoint below `directory`. Answer: `EvaluatorFinished`."""

    task: str
    directory: AnyText


class EvaluatorFinished(Event):
    task: str


# ---- the end
class Stop(Command):
    """Signal everything below the agent (0: nothing); SIGKILL follows after `grace` seconds, or when it was due."""

    number: SignalOrNone
    grace: float


class Resting(Event):
    """After a stop signal: a worker with TensorFlow only waits for its peers, or no longer does."""

    task: str
    resting: bool


class Empty(Event):
    """Nothing that the run has started is left on the host."""


class Survivors(Event):
    """Processes that survived SIGKILL."""

    pids: list[Pid]


class StopAsked(Event):
    """Somebody on the host has asked to stop the run."""


# ---- files that the launcher gathers; answers repeat the `number` of the command
class ListFiles(Command):
    """List every regular file below `root`/name for each of the names; `.` means everything below `root`.

    Answers: any number of `FilesListed`, then `FilesListEnded`.
    """

    number: Count
    root: AnyText
    names: Long[AnyText]


class FilesListed(Event):
    number: Count
    files: Long[tuple[AnyText, AnyWhole, TimeNs]]
    """Path below the root, size, time of modification."""
    links: Long[AnyText]
    unreadable: Long[tuple[AnyText, AnyText]]
    """Path and reason."""


class FilesListEnded(Event):
    number: Count
    clock_ns: TimeNs


class SendFile(Command):
    """Send a file from `offset` on if its bytes before that have this SHA-256, otherwise from the beginning.

    Only its first `size` bytes are sent, even if it has grown. Answers: any number of `FilePiece`, then `FileSent` or
    `FilesFailed`.
    """

    number: Count
    root: AnyText
    path: AnyText
    size: Count
    offset: Count
    sha256: str


class FilePiece(Event):
    number: Count
    offset: Count
    data: Piece


class FileSent(Event):
    number: Count
    size: Count
    sha256: str
    mtime_ns: TimeNs
    unchanged: bool
    """Nobody wrote to it meanwhile."""


class FilesFailed(Event):
    """The command with this number cannot be carried out."""

    number: Count
    path: AnyText
    """The file, if the command does not say it."""
    code: str
    """As `ENOSPC`; empty if it is no error of the system."""
    reason: Words


class FilesArrived(Command):
    """So many more bytes of the pieces were written."""

    count: Count


class ForgetFiles(Command):
    """Cancel everything that was asked for and is not sent yet."""


# ---- files that the launcher sends for the next attempt
class BeginDelivery(Command):
    """Prepare to receive files for `root`; until `PlaceDelivery` they stay in `staging`. Answer: `DeliveryReady`.

    The answer to any of these commands may be `FilesFailed`.
    """

    number: Count
    root: AnyText
    staging: AnyText


class DeliveryReady(Event):
    number: Count
    free: Count
    """Bytes on the disk."""


class DeliverPiece(Command):
    """The next bytes of a file. Answer: `PieceDelivered`."""

    number: Count
    file: Count
    path: AnyText
    data: Bulk


class PieceDelivered(Event):
    number: Count


class PlaceDelivery(Command):
    """Move everything to its place. Answer: `DeliveryPlaced`."""

    number: Count
    files: Long[tuple[AnyText, Count, TimeNs, str]]
    """Path below the root, size, time of modification, SHA-256 of each."""


class DeliveryPlaced(Event):
    number: Count


class DropDelivery(Command):
    """Cancel the delivery."""

    number: Count


# ---- the project
class ProjectFile(NamedRow):
    """A file or a symbolic link, as it stood when the project was read."""

    path: AnyText
    """Below the project's directory. Bytes that are no UTF-8 stand as surrogates, in whatever locale."""
    size: Count
    mtime_ns: TimeNs
    mode: Mode
    target: AnyText | None
    """Where a symbolic link points to."""


class DoubtfulFile(NamedRow):
    """A file of a host whose contents may be right: it has the right size."""

    number: Count
    sha256: str
    objection: str
    """Why it must not be replaced; empty: it may be."""


class CompareProject(Command):
    """Find out what the directory `top` lacks of the project. Answers: perhaps `ProjectWaits`, then `ProjectCompared`.

    From now on, a number means the index of a file in this list. The answer to any of these commands may be
    `ProjectFailed`.
    """

    top: AnyText
    files: Long[ProjectFile]


class ProjectWaits(Event):
    """Another launcher has locked the directory; the agent waits."""

    path: str


class ProjectCompared(Event):
    top: str
    """The directory's absolute path."""
    over: bool
    """Nothing is missing."""
    free: Count
    freed: Count
    """Bytes that replacing the wanted files will free."""
    rsync: bool
    """Whether the host has rsync."""
    wanted: Long[Count]
    doubtful: Long[DoubtfulFile]
    in_the_way: Long[tuple[str, str]]
    """Paths that something else occupies, and what it is."""


class PrepareProject(Command):
    """Prepare to receive the files `wanted`; those in `same` have the right contents. Answer: `ProjectPrepared`."""

    wanted: Long[Count]
    same: Long[Count]
    staging: bool
    """rsync will send them."""


class ProjectPrepared(Event):
    deleted: Count
    kept: Long[str]


class BringProjectPiece(Command):
    """The bytes of a file from `at` on; the last ones complete it. Answer: `ProjectPieceBrought`."""

    number: Count
    at: Count
    size: Count
    mtime_ns: TimeNs
    mode: Mode
    sha256: str
    """Of the file from its beginning to the end of this piece."""
    data: Bulk


class ProjectPieceBrought(Event):
    pass


class SettleProject(Command):
    """Check which files have arrived. Answer: `ProjectSettled`."""


class ProjectSettled(Event):
    missing: Long[Count]


class ProjectFailed(Event):
    path: str
    code: str
    reason: Words


# ---- programs of `launch doctor`
class AskProgram(Command):
    """Run a program, with `said` on its stdin. Answers: `ProgramNotRun`; or any `ProgramSaid`, then `ProgramEnded`."""

    name: str
    """Its name in all messages about it."""
    argv: Long[AnyText]
    env: dict[str, AnyText]
    cwd: AnyText
    said: Bulk


class TellProgram(Command):
    """More for the program's stdin."""

    name: str
    last: bool
    said: Bulk


class ProgramNotRun(Event):
    name: str
    reason: Words


class ProgramSaid(Event):
    name: str
    data: Piece


class ProgramEnded(Event):
    name: str
    code: ExitCode | None
    signal: SignalNumber | None
    last_words: Tail


COMMANDS = by_name(Command, globals())
EVENTS = by_name(Event, globals())
