"""One host of a rig: what a test does on it and to it."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import psutil

from rig.cable import Cable, address, address_6
from rig.firewall import UNBLOCK, blocking
from rig.lab import ENVIRONMENT, Lab, RigError, checked, namespaces_of
from rig.native import built
from rig.processes import (
    PATIENCE,
    await_true,
    has_ended,
    is_sshd,
    pid_on_host,
    processes_beside,
    stands_still,
)
from rig.requirements import found
from rig.ssh_client import SshClient, replaced
from rig.sshd import Sshd, make_key, path_of_sshd

FIRST_PROCESS = Path(__file__).with_name("host.sh")
NAMESPACES = ("net", "mount", "uts", "ipc", "pid")
EMPTY_DISK = """
find /tmp /var/tmp /root /home/tb /dev/shm -xdev -mindepth 1 -delete 2>/dev/null  # what is shown there stays
cp /etc/skel/.bashrc /home/tb/ && chown tb:tb /home/tb/.bashrc || :
"""
UNTIL_BANNERS = """
for address; do
    until timeout 1 bash -c 'exec 3<>"/dev/tcp/$0/22" && read -r -n 4 -u 3' "$address" 2>/dev/null; do sleep 0.01; done
done
"""


def await_banners(lab: Lab, hosts: Sequence[Host]) -> None:
    """Return once a connection from the login machine reaches the sshd of each host."""
    words = ["bash", "-c", UNTIL_BANNERS, "bash", *(host.addresses[0] for host in hosts)]
    try:
        subprocess.run([*lab.on_login_machine, *words], env=ENVIRONMENT, timeout=PATIENCE, check=True)
    except subprocess.TimeoutExpired as error:
        raise RigError(f"no sshd answers on one of {hosts}") from error


@dataclass(frozen=True)
class LoginMachine:
    """Where people log in and start things: this machine, but for its network."""

    words: tuple[str, ...]
    """What to put in front of a command to run it there. It takes the place of these words, so signals reach it."""
    addresses: tuple[str, str] = (address(0), address_6(0))
    """IPv4 and IPv6."""


class Host:
    """What one method breaks another one mends, and `clear` mends all. A context manager restores what it changes."""

    def __init__(self, lab: Lab, number: int, client: SshClient, disk: str, neighbours: Iterable[int] = ()) -> None:
        """`neighbours`: see `Cable`."""
        self.name = f"host{number}"
        self.addresses = (address(number), address_6(number))
        """IPv4 and IPv6."""
        self.directory = lab.directory / self.name
        """Files that the host sees as /run/rig."""
        self._lab, self._client, self._disk = lab, client, disk
        self._login = LoginMachine(lab.on_login_machine)
        self._sshd = Sshd(self.directory)
        self._cable = Cable(lab, number, self.name, neighbours)
        self._process: subprocess.Popen[str] | None = None
        self._pid = 0
        self._mend: dict[str, Callable[[], None]] = {}
        """How to undo each thing that was done to the host."""

    def __repr__(self) -> str:
        return self.name

    # ---- up and down
    def make_directory(self, files: Mapping[str, str]) -> None:
        """Write its files and make its key, before its first start."""
        self.directory.mkdir()
        self.directory.chmod(0o755)  # whatever the umask: the host's users read these files
        for name, text in files.items():
            (self.directory / name).write_text(text)
            (self.directory / name).chmod(0o600 if name == "shadow" else 0o644)
        make_key(self._sshd.host_key, self.name)

    @property
    def public_key(self) -> Path:
        """Of its ssh key."""
        return self._sshd.host_key.with_suffix(".pub")

    def start(self) -> None:
        """Start it; `connect` goes on."""
        self._sshd.write_files()
        arguments = (self.name, str(self.directory), self._disk, path_of_sshd())
        unshare = ("unshare", *(f"--{kind}" for kind in NAMESPACES), "--fork", "--kill-child=SIGKILL")
        self._process = subprocess.Popen(
            [*self._lab.inside, *unshare, "--propagation", "private", "--", "bash", str(FIRST_PROCESS), *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=ENVIRONMENT,
            start_new_session=True,
        )

    def connect(self) -> None:
        """Wait until it has started, and plug it in."""
        assert self._process is not None
        assert self._process.stdout is not None
        said = self._process.stdout.readline()
        if not said:
            raise RigError(f"{self} did not start: {self._process.communicate()[1].strip()}")
        self._pid = int(said)
        self._cable.lay(self._pid)
        await_true(lambda: self._sshd.pid, f"{self}: sshd listens")

    def close(self) -> None:
        """Return once nothing of it runs."""
        if self._process is not None:
            self._process.communicate()
            self._process, self._pid = None, 0

    @property
    def is_up(self) -> bool:
        """Whether its first process lives."""
        return self._process is not None and self._process.poll() is None

    def crash(self) -> None:
        """It loses its power: no packet leaves it any more, and all of its processes are gone."""
        if not self.is_up:
            return
        self._cable.cut()
        psutil.Process(self._pid).kill()
        self.close()
        self._mend = {"crash": self.boot}

    def boot(self) -> None:
        """It comes back, with its name, address and key and an empty disk."""
        self.crash()
        self.close()
        self._cable.remove()
        self._forget_skew()
        self._mend = {}
        self.start()
        self.connect()
        await_banners(self._lab, [self])

    # ---- what one does there
    def run(
        self, command: str | Sequence[str | Path], user: str = "tb", given: str = "", check: bool = True
    ) -> subprocess.CompletedProcess[str]:
        """Run shell text, or words, past the network: also on a host that ssh does not reach. `given` is its stdin."""
        done = self._run(command, user, given.encode(), check)
        return subprocess.CompletedProcess(
            done.args, done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")
        )

    def read(self, path: str | Path) -> bytes:
        """A file's content."""
        return self._run(["cat", path], "root").stdout

    def write(self, path: str | Path, data: bytes, user: str = "tb") -> None:
        """Give a file this content; directories that it lacks are made."""
        self._run(["sh", "-c", 'mkdir -p -- "$(dirname -- "$0")" && cat >"$0"', path], user, data)

    def _run(
        self, command: str | Sequence[str | Path], user: str, given: bytes = b"", check: bool = True
    ) -> subprocess.CompletedProcess[bytes]:
        if not self.is_up:
            raise RigError(f"{self} is down")
        words = ["bash", "-c", command] if isinstance(command, str) else [str(word) for word in command]
        as_user = ["setpriv", f"--reuid={user}", f"--regid={user}", "--init-groups", "--reset-env", "--"]
        in_home = ["sh", "-c", 'cd && exec "$@"', "sh"]
        done = subprocess.run(
            [*namespaces_of(self._pid, *NAMESPACES), *as_user, *in_home, *words],
            input=given,
            capture_output=True,
            env=ENVIRONMENT,
            timeout=PATIENCE,
        )
        if check and done.returncode:
            raise RigError(f"{self}: {words}: exit code {done.returncode}: {done.stderr.decode(errors='replace')}")
        return done

    def processes(self) -> list[psutil.Process]:
        """What lives there and is not the rig's. The numbers are this machine's; see `process`."""
        return [process for process in self._all_processes() if process.pid != self._pid and not is_sshd(process)]

    def process(self, pid: int) -> psutil.Process:
        """The process with this number on the host."""
        for process in self._all_processes():
            if pid_on_host(process) == pid:
                return process
        raise RigError(f"{self} has no process {pid}")

    def _all_processes(self) -> list[psutil.Process]:
        return processes_beside(self._pid) if self.is_up else []

    def files(self) -> list[str]:
        """Every file that was put into /tmp, /var/tmp, /dev/shm or a home."""
        places = ("/tmp", "/var/tmp", "/dev/shm", "/root", "/home")
        found = self.run(["find", *places, "-xdev", "-type", "f"], "root").stdout.splitlines()
        return sorted(set(found) - {"/home/tb/.bashrc"})

    def empty_disk(self) -> None:
        """Make the disk as it was in the beginning."""
        self.run(EMPTY_DISK, "root", check=False)

    # ---- the network goes wrong
    def partition(self) -> None:
        """Packets to and from the host vanish, and nobody is told."""
        self._mend["partition"] = self.heal
        self._cable.cut()

    def heal(self) -> None:
        self._cable.mend()
        self._mend.pop("partition", None)

    def unplug(self) -> None:
        """Packets vanish, and the host sees that its cable is unplugged."""
        self._mend["unplug"] = self.plug
        self._cable.unplug()

    def plug(self) -> None:
        self._cable.plug()
        self._mend.pop("unplug", None)

    def limit_rate(self, rate: str) -> None:
        """At most so much passes in each direction: "10mbit", as `tc` writes it."""
        self._mend["rate"] = self.lift_rate
        self._cable.limit(rate)

    def lift_rate(self) -> None:
        self._cable.unlimit()
        self._mend.pop("rate", None)

    def impair(self, delay_ms: float = 0.0, jitter_ms: float = 0.0, loss: float = 0.0) -> None:
        """Packets take so long in each direction, and a part of them is lost (0.1 is a tenth). All zero mends it."""
        self._mend["impair"] = self.impair
        self._cable.impair(delay_ms, jitter_ms, loss)
        if not (delay_ms or jitter_ms or loss):
            del self._mend["impair"]

    def block(self, other: Host | LoginMachine, *ports: int) -> None:
        """Packets between the host and one other vanish; where ports are named, those from or to one of these ports.

        Once more blocks more.
        """
        self._mend["block"] = self.unblock
        self._nft(blocking(other.addresses, ports))

    def unblock(self) -> None:
        """Let everything pass again that `block` has stopped."""
        self._nft(UNBLOCK)
        self._mend.pop("block", None)

    def _nft(self, commands: str) -> None:
        checked([*namespaces_of(self._pid, "net"), "nft", "-f", "-"], commands)

    # ---- the host goes wrong
    def freeze(self) -> None:
        """Every process stands still, sshd too; the kernel still answers the network."""
        self._mend["freeze"] = self.thaw
        self._signal_all(signal.SIGSTOP)
        others = [process for process in self._all_processes() if process.pid != self._pid]
        await_true(lambda: all(map(stands_still, others)), f"{self} stands still")

    def thaw(self) -> None:
        self._signal_all(signal.SIGCONT)
        self._mend.pop("freeze", None)

    def fill_disk(self) -> None:
        """Not a byte fits on the disk any more."""
        self._mend["disk"] = self.free_disk
        self.run("cat /dev/zero >/run/disk/filling", "root", check=False)

    def free_disk(self) -> None:
        self.run("rm -f /run/disk/filling", "root")
        self._mend.pop("disk", None)

    def skew_clock(self, seconds: float) -> None:
        """Programs of new ssh sessions read a clock that is so far ahead."""
        self._mend["clock"] = self.right_clock
        library = built("skew", self.directory, "-shared", "-fPIC", "-ldl")
        self._sshd.environment |= {"LD_PRELOAD": f"/run/rig/{library.name}", "RIG_SKEW": str(seconds)}
        self._restart_sshd()

    def right_clock(self) -> None:
        self._forget_skew()
        self._restart_sshd()
        self._mend.pop("clock", None)

    def _forget_skew(self) -> None:
        for name in ("LD_PRELOAD", "RIG_SKEW"):
            self._sshd.environment.pop(name, None)

    def kill_ssh_sessions(self) -> None:
        """Every ssh connection to the host breaks; sshd takes new ones."""
        for process in self._all_processes():
            if is_sshd(process) and not self._listens(process):
                with suppress(psutil.NoSuchProcess):
                    process.kill()

    def stop_sshd(self) -> None:
        """No new ssh connection: nobody listens. Those that are there stay."""
        self._mend["sshd"] = self.start_sshd
        for process in self._all_processes():
            if self._listens(process):
                process.kill()
                await_true(partial(has_ended, process), f"{self}: sshd ends")

    def start_sshd(self) -> None:
        self.stop_sshd()
        self._sshd.write_files()
        self.run([path_of_sshd(), "-f", "/run/rig/sshd_config", "-E", "/run/rig/sshd.log"], "root")
        await_true(lambda: self._sshd.pid, f"{self}: sshd listens")
        self._mend.pop("sshd", None)

    def _listens(self, process: psutil.Process) -> bool:
        return is_sshd(process) and pid_on_host(process) == self._sshd.pid

    def _restart_sshd(self) -> None:
        if self.is_up:
            self.start_sshd()

    def _signal_all(self, number: signal.Signals) -> None:
        self.run(f"kill -s {number.name} -- -1", "root", check=False)  # there may be none

    def clear(self) -> None:
        """Mend whatever was broken; a host that cannot be mended starts anew."""
        if not self.is_up:
            self.boot()
        try:
            while self._mend:
                _, mend = self._mend.popitem()
                mend()
        except RigError:
            self.boot()
            raise

    # ---- hosts differ
    @contextmanager
    def login_shell(self, shell: str) -> Iterator[None]:
        """In the block the user tb has this login shell."""
        path = found(shell)
        if path is None:
            raise RigError(f"there is no {shell}")
        users = self.directory / "passwd"
        with replaced(users, users.read_text().replace(":/home/tb:/bin/bash\n", f":/home/tb:{path}\n", 1)):
            yield

    @contextmanager
    def sshd_options(self, *lines: str) -> Iterator[None]:
        """In the block sshd has these lines in its configuration, before all others; the first of a kind wins."""
        before = self._sshd.options
        self._sshd.options = (*lines, *before)
        self._restart_sshd()
        try:
            yield
        finally:
            self._sshd.options = before
            self._restart_sshd()

    @contextmanager
    def session_environment(self, **variables: str) -> Iterator[None]:
        """In the block every ssh session has these variables."""
        before = dict(self._sshd.environment)
        self._sshd.environment |= variables
        self._restart_sshd()
        try:
            yield
        finally:
            self._sshd.environment = before
            self._restart_sshd()

    @contextmanager
    def without_python(self) -> Iterator[None]:
        """In the block no Python is on the PATH of an ssh session."""
        programs = self.directory / "programs"
        if not programs.exists():
            programs.mkdir()
            programs.chmod(0o755)
            for program in (*Path("/usr/bin").iterdir(), *Path("/bin").iterdir()):
                if not program.name.startswith("python"):
                    with suppress(FileExistsError):
                        (programs / program.name).symlink_to(program)
        with self.session_environment(PATH=f"/run/rig/{programs.name}"):
            yield

    @contextmanager
    def another_host_key(self) -> Iterator[None]:
        """In the block the host shows a key that is not the one that the login machine knows."""
        before = self._sshd.host_key
        another = self.directory / "another_key"
        if not another.exists():
            make_key(another, self.name)
        self._sshd.host_key = another
        self._restart_sshd()
        try:
            yield
        finally:
            self._sshd.host_key = before
            self._restart_sshd()

    @contextmanager
    def unknown(self) -> Iterator[None]:
        """In the block the login machine does not know the host's key."""
        with self._client.forgotten(self.name):
            yield

    @contextmanager
    def behind(self, jump: Host) -> Iterator[None]:
        """In the block the login machine reaches the host through another one only, by ssh's ProxyJump."""
        with self._client.configured(self.name, f"ProxyJump {jump.name}"):
            self.block(self._login)
            try:
                yield
            finally:
                if self.is_up:  # a host that comes back is not blocked
                    self.unblock()
