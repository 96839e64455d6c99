"""All that launcher and agent say to each other, each message once. Both ends are made from this, and so are the tests.

To add one: write it here, then the one who sends it and the one who gets it.
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
    """The launcher's first word. Answer: `Ready`, with the values of these environment variables."""

    lease: float
    """Seconds without a sign of life from the launcher, after which the agent ends everything."""
    variables: Long[str]


class Ready(Event):
    """What the host tells of itself, once; see `launcher.on_host.agent.facts`."""

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
    """The launcher lives. Answer: `Alive`."""


class Alive(Event):
    """The agent does, too."""


class Put(Command):
    """Write files below the run's directory; `data` has one behind the other. Answer, if that fails: `NotPut`."""

    root: AnyText
    files: Long[tuple[AnyText, Count]]
    """The path and size of each."""
    data: Bulk


class NotPut(Event):
    reason: Words


# ---- ports
class Reserve(Command):
    """Hold one port a task, from `first` to `last` (both 0: any). Answer: `Reserved` or `NotReserved`.

    Until the workers start, whoever dials them and knows `word` (if any) is answered there.
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
    """A port of another host, and the word that is known there."""

    id: str
    address: AnyText
    port: Port
    word: str


class DialPorts(Command):
    """Try to reach ports, for so many seconds; names may take `look_up` seconds before. Answer: `DialResults`."""

    targets: Long[Target]
    seconds: float
    look_up: float


class DialResults(Event):
    """Of each target, by its `id`: nothing, or why it was not reached."""

    results: dict[str, Words]


class NoGate(Event):
    """Why strangers cannot be kept off the workers' ports here."""

    reason: Words


class Stranger(Event):
    """Somebody who is no host of the run has been turned away from a task's port, as have so many others."""

    task: str
    address: Words
    number: Count


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
    """Start workers. Each answers `Started` or `StartFailed`; the first that cannot be started ends the row.

    `hold`: their ports stay held. `admitted`: who may connect to held ports: "all"; the "hosts" of the run; or
    "loopback" alone. A worker of a task whose process has ended takes its place: same port, same log.
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
    """A worker with TensorFlow has been at rest for long, and does not listen at its own port."""

    task: str
    own: Port
    ports: list[Port]
    """Where it listens instead."""
    connected: list[Words]
    dialled: list[Words]


class SharedPort(Event):
    """TensorFlow servers of several processes listen at one port: the task and pid of each."""

    port: Port
    processes: list[tuple[str, Pid]]


class LogPiece(Event):
    """The next bytes of a worker's log."""

    task: str
    offset: Count
    data: Piece


class Acknowledge(Command):
    """The console has shown so many bytes more of a log."""

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
    """The end of its log as it stood then."""


class LogShipped(Event):
    """A worker has ended, and all of its log has been sent."""

    task: str


class AwaitEvaluator(Command):
    """Tell when the evaluator has seen the last checkpoint below its output directory. Answer: `EvaluatorFinished`."""

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
    """After a stop signal: a worker that has TensorFlow loaded only waits, or no longer does."""

    task: str
    resting: bool


class Empty(Event):
    """Nothing that the run started is left on the host."""


class Survivors(Event):
    """SIGKILL did not end these."""

    pids: list[Pid]


class StopAsked(Event):
    """Somebody on the host has asked for the end of the run."""


# ---- files that the launcher gathers; `number`: of the question
class ListFiles(Command):
    """Tell of every regular file below `root`/name for each of the names; `.` is all that is below `root`.

    Answers: `FilesListed`, several times maybe, then `FilesListEnded`.
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
    """Send a file from `offset` on if its bytes before that have this SHA-256, else from its beginning.

    However long it has become, no more than its first `size` bytes are sent. Answers: `FilePiece`, until there is
    `FileSent` or `FilesFailed`.
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
    """What was asked with this number cannot be done."""

    number: Count
    path: AnyText
    """Of the file, where that is not known anyhow."""
    code: str
    """As `ENOSPC`; empty: none of the system's."""
    reason: Words


class FilesArrived(Command):
    """So many bytes more of what was sent are dealt with."""

    count: Count


class ForgetFiles(Command):
    """Nobody waits any more for what was asked for and has not been sent."""


# ---- files that the launcher brings for the next attempt
class BeginDelivery(Command):
    """Make ready for files that will be placed below `root`; until then they lie in `staging`. Answer: `DeliveryReady`.

    Of all of these the answer may be `FilesFailed`.
    """

    number: Count
    root: AnyText
    staging: AnyText


class DeliveryReady(Event):
    number: Count
    free: Count
    """Bytes."""


class DeliverPiece(Command):
    """The next bytes of a file. Answer: `PieceDelivered`."""

    number: Count
    file: Count
    path: AnyText
    data: Bulk


class PieceDelivered(Event):
    number: Count


class PlaceDelivery(Command):
    """Put everything in its place. Answer: `DeliveryPlaced`."""

    number: Count
    files: Long[tuple[AnyText, Count, TimeNs, str]]
    """Path below the root, size, time of modification, SHA-256 of each."""


class DeliveryPlaced(Event):
    number: Count


class DropDelivery(Command):
    """Nobody wants any more what is under way."""

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
    """Find out what of the project is missing in the directory `top`. Answers: `ProjectWaits` maybe, `ProjectCompared`.

    Files are called by their place in this list from now on. Of all these commands the answer may be `ProjectFailed`.
    """

    top: AnyText
    files: Long[ProjectFile]


class ProjectWaits(Event):
    """Another launch has the directory."""

    path: str


class ProjectCompared(Event):
    top: str
    """The directory's whole path."""
    over: bool
    """Everything is there."""
    free: Count
    freed: Count
    """Bytes that there will be more, once files that are wanted are replaced."""
    rsync: bool
    """The host has it."""
    wanted: Long[Count]
    doubtful: Long[DoubtfulFile]
    in_the_way: Long[tuple[str, str]]
    """Path, and what stands there."""


class PrepareProject(Command):
    """Make ready for the files `wanted`; those of `same` have the right contents. Answer: `ProjectPrepared`."""

    wanted: Long[Count]
    same: Long[Count]
    staging: bool
    """rsync will bring them."""


class ProjectPrepared(Event):
    deleted: Count
    kept: Long[str]


class BringProjectPiece(Command):
    """The bytes of a file from `at` on; the last ones put it in its place. Answer: `ProjectPieceBrought`."""

    number: Count
    at: Count
    size: Count
    mtime_ns: TimeNs
    mode: Mode
    sha256: str
    """Of all of the file up to here."""
    data: Bulk


class ProjectPieceBrought(Event):
    pass


class SettleProject(Command):
    """See what has come. Answer: `ProjectSettled`."""


class ProjectSettled(Event):
    missing: Long[Count]


class ProjectFailed(Event):
    path: str
    code: str
    reason: Words


# ---- programs of `launch doctor`
class AskProgram(Command):
    """Run a program, `said` on its stdin. Answers: `ProgramNotRun`; or `ProgramSaid` as it talks, `ProgramEnded`."""

    name: str
    """What it is called in all messages about it."""
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
