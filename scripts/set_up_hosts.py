"""`scripts/setup_host`: hosts behind ssh get a Python that has TensorFlow; all that they need is `python3`."""

from __future__ import annotations

import argparse
import contextlib
import json
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import over_ssh

from launcher.caller.standard_output import write_error, write_out, writing_out
from launcher.cluster.cluster import Host
from launcher.cluster.file.reading import read_cluster_file
from launcher.errors import LaunchError, UsageError
from launcher.hosts.access import chosen_options
from launcher.hosts.connection import NO_END, NO_END_REMEDY, NO_SSH
from launcher.hosts.ssh_complaint import explained
from launcher.hosts.transport import ssh_options
from launcher.wording import harmless, harmless_line

ROOT = Path(__file__).resolve().parents[1]
PINS = {"cpu": ROOT / "constraints.txt", "cuda": ROOT / "constraints-cuda.txt"}
ROOM = {"cpu": 3.2e9, "cuda": 10.5e9}
"""Bytes that a set-up takes at its largest, when all files have been downloaded and unpacked."""
OLDEST, NEWEST = (3, 11), (3, 13)
"""The versions of Python that the pins are for."""
VENV = "~/tf-launch/venv"
WORD = "\0tf-launch "
LONGEST_ANSWER = 1 << 20
"""Bytes of a line."""
MOST_NOISE = 1 << 20
"""Bytes that a login shell may print."""
AT_ONCE = 16
EXIT_DONE, EXIT_HOST, EXIT_INTERRUPTED = 0, 3, 130
DESCRIPTION = """\
Prepare hosts behind ssh for TensorFlow: a virtual environment with the pinned packages, each file checked against its
hash; with CUDA where a GPU is found. Then TensorFlow is asked for its GPUs. What is ready already is only checked.
"""
EPILOG = """\
The hosts need python3 (3.9 or later) for this program, and Python 3.11, 3.12 or 3.13 with its venv module for
TensorFlow; 3.2 GB of room (without CUDA) or 10.5 GB (with), of which 2.3 GB and 6.8 GB stay in use; and a package
index, by the pip configuration of the host (mirror, proxy).

examples:
  scripts/setup_host gpu-a me@gpu-b
  scripts/setup_host --cluster two_hosts.yaml        all hosts of a cluster file, with its ssh options

exit codes: 0 all are ready, 2 usage, 3 a host could not be set up
"""


@dataclass(frozen=True)
class Place:
    """A host, and the environment that it is to have."""

    host: Host
    venv: str


def main() -> int:
    """Set all hosts up, and tell what to write into the cluster file; the exit code."""
    options = parsed(sys.argv[1:])
    try:
        places = wanted(options)
        given = request(options)
    except (LaunchError, OSError) as error:
        write_error(f"setup_host: {harmless(str(error))}")
        return UsageError.exit_code
    if shutil.which("ssh") is None:
        write_error(f"setup_host: `ssh` is not installed on this machine: {NO_SSH}")
        return EXIT_HOST
    with ThreadPoolExecutor(AT_ONCE) as pool, Connections() as connections:
        done = list(pool.map(lambda place: set_up(place, given, connections), places))
    ready = {place.host.name: each for place, each in zip(places, done, strict=True) if each is not None}
    tell_what_to_write(ready)
    return EXIT_DONE if len(ready) == len(places) else EXIT_HOST


def parsed(arguments: Sequence[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="setup_host", description=DESCRIPTION, epilog=EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("hosts", nargs="*", metavar="HOST", help="as for ssh: an alias, a host, user@host")
    parser.add_argument("-c", "--cluster", type=Path, metavar="FILE", help="a cluster file: its hosts, its ssh options")
    parser.add_argument("--venv", metavar="DIR", help=f"where on the hosts (default: {VENV}, or what `python` says)")
    parser.add_argument("--python", metavar="PATH", help="the hosts' Python to make it with (default: found)")
    parser.add_argument(
        "--pins", type=Path, metavar="FILE", help="other pins than this checkout's; room is not checked"
    )
    cuda = parser.add_mutually_exclusive_group()
    cuda.add_argument("--cuda", action="store_const", const="yes", default="auto", help="with CUDA, GPU or not")
    cuda.add_argument("--cpu", action="store_const", const="no", dest="cuda", help="without CUDA, GPU or not")
    try:
        options = parser.parse_args(arguments)
    except SystemExit:
        with writing_out():  # what --help has printed
            pass
        raise
    if not options.hosts and options.cluster is None:
        parser.error("name hosts, or a cluster file with --cluster")
    if wrong := [host for host in options.hosts if host.startswith("-")]:
        parser.error(f"{wrong[0]}: this is no host")
    return options


def wanted(options: argparse.Namespace) -> list[Place]:
    """The hosts to set up.

    Raises:
        LaunchError: the cluster file is wrong, or has no such host.
    """
    known = {host.name: host for host in read_cluster_file(options.cluster).hosts} if options.cluster else {}
    names = options.hosts or [host.name for host in known.values() if not host.is_local]
    if not names:
        raise UsageError(f"{options.cluster} has no host but localhost; scripts/launch sets up this machine itself")
    hosts = [known.get(name, Host(name, ())) for name in dict.fromkeys(names)]
    return [Place(host, options.venv or environment_of(host)) for host in hosts]


def environment_of(host: Host) -> str:
    """The environment that the host's `python` means."""
    python = host.python or ""
    return python.removesuffix("/bin/python") if python.endswith("/bin/python") else VENV


def request(options: argparse.Namespace) -> bytes:
    """What the program on the host reads first.

    Raises:
        OSError: the pins cannot be read.
    """
    pins = {kind: (options.pins or path).read_bytes() for kind, path in PINS.items()}
    head = {
        "cuda": options.cuda,
        "python": options.python,
        "pins": {kind: len(text) for kind, text in pins.items()},
        "room": dict.fromkeys(ROOM, 0) if options.pins else ROOM,
        "oldest": OLDEST,
        "newest": NEWEST,
    }
    return json.dumps(head).encode() + b"\n" + b"".join(pins.values())


# ---- one host
class Connections:
    """The ssh processes under way. Leaving the `with` block ends them, and with them what they run."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._processes: list[subprocess.Popen[bytes]] = []
        self.over = False

    def __enter__(self) -> Connections:
        return self

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self.over = True
            for process in self._processes:
                process.terminate()

    @contextlib.contextmanager
    def to(self, argv: Sequence[str], complaint: IO[bytes]) -> Iterator[subprocess.Popen[bytes]]:
        """A process, to its end."""
        with self._lock:
            process = subprocess.Popen(
                over_ssh.bounded(argv),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=complaint,
                start_new_session=True,
            )
            self._processes.append(process)
            if self.over:
                process.terminate()
        with contextlib.suppress(BrokenPipeError), process:
            try:
                yield process
            finally:
                process.terminate()  # whatever else it does, nobody waits for it


def set_up(place: Place, given: bytes, connections: Connections) -> dict[str, Any] | None:
    """Set one host up, telling how it goes; what it has then, or None."""
    name = place.host.name
    ssh = [*chosen_options(place.host), *ssh_options(place.host.ssh.connect_timeout)]
    text = over_ssh.program("set_up")
    head, _, pins = given.partition(b"\n")
    line = json.dumps({**json.loads(head), "venv": place.venv}).encode()
    argv = over_ssh.command(name, text, ssh)
    with tempfile.TemporaryFile() as complaint, connections.to(argv, complaint) as process:
        threading.Thread(target=feed, args=(process, text + line + b"\n" + pins), daemon=True).start()
        for answer in answers(process):
            if "say" in answer:
                say(name, answer["say"])
            elif "failed" in answer:
                complain(name, answer["failed"], answer["remedy"])
                return None
            else:
                say(name, ready(answer["done"]))
                done: dict[str, Any] = answer["done"]
                return done
        if connections.over:
            return None
        if over_ssh.went_too_far(process):
            complain(name, NO_END, NO_END_REMEDY)
            return None
        how = f"the connection closed, ssh ended with exit code {process.wait()}"
        complaint.seek(0)
        why = explained(complaint.read().decode("utf-8", "replace"), how, name, chosen_options(place.host))
    complain(name, why.reason, why.remedy or "")
    return None


def feed(process: subprocess.Popen[bytes], given: bytes) -> None:
    """Write to a process that reads when it likes. Its stdin stays open: an end would mean that nobody waits for it."""
    assert process.stdin is not None
    with contextlib.suppress(BrokenPipeError, ValueError):  # it has ended, or nobody waits for it any more
        process.stdin.write(given)
        process.stdin.flush()


def answers(process: subprocess.Popen[bytes]) -> Iterator[dict[str, Any]]:
    """What the program there tells, line by line."""
    assert process.stdout is not None
    noise = 0
    while line := process.stdout.readline(LONGEST_ANSWER):
        _, mark, answer = line.decode("utf-8", "replace").partition(WORD)
        if mark:
            yield understood(answer)
            continue
        noise += len(line)
        if noise > MOST_NOISE:
            process.kill()
            yield {"failed": NO_END, "remedy": NO_END_REMEDY}


def understood(answer: str) -> dict[str, Any]:
    """One answer: something to `say`, why it `failed` with a remedy, or what is there when all is `done`.

    Anything else is a failure, too.
    """
    try:
        match json.loads(answer):
            case {"say": str()} | {"failed": str(), "remedy": str()} as told:
                return dict(told)
            case {"done": {"python": str(), "tensorflow": _, "keras": _, "gpus": list(), "driver": list()}} as told:
                return dict(told)
    except (ValueError, RecursionError):
        pass
    return {"failed": "it answered with something that nobody understands", "remedy": ""}


# ---- words
def ready(done: Mapping[str, Any]) -> str:
    """What a host has."""
    gpus = f"{len(done['gpus'])} GPU{'' if len(done['gpus']) == 1 else 's'}" if done["gpus"] else "no GPU"
    which = f" ({done['driver'][0]})" if done["driver"] else ""
    return f"ready: TensorFlow {done['tensorflow']}, Keras {done['keras']}, {gpus}{which}"


def tell_what_to_write(ready: Mapping[str, Mapping[str, Any]]) -> None:
    """The line that makes the launcher use it."""
    for python in dict.fromkeys(each["python"] for each in ready.values()):
        names = [name for name, each in ready.items() if each["python"] == python]
        whose = f"\nIn the cluster file, for {', '.join(names)} (or in `defaults`):"
        write_out(f"{whose}\n    python: {harmless_line(python)}\n")


def say(host: str, text: str) -> None:
    """A line of one host's."""
    write_out(f"{harmless_line(f'[{host}] {text}')}\n")


def complain(host: str, reason: str, remedy: str) -> None:
    """Why a host could not be set up."""
    first, *more = harmless(f"[{host}] error: {reason}\n{remedy}".rstrip()).split("\n")
    lines = [first, *(f"  {line}" for line in more)]  # behind an indent they pass for nobody's own
    write_error("\n".join(lines))


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        write_error("setup_host: interrupted: the next one starts where it has to")
        sys.exit(EXIT_INTERRUPTED)
