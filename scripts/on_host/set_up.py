"""Makes a virtual environment with TensorFlow on this host, every file of it pinned and checked against its hash.

`set_up_hosts.py` sends this to the host's `python3` (3.9 or later). Over stdin follow a request (one line of JSON) and
the pins; then stdin stays open, and its end means that nobody waits for this any more. It answers in lines of JSON.
`set_up_venv.py` uses parts of it for this checkout's own environment.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

WORD = "\0tf-launch "
"""Stands before each line that is told; what a login shell printed does not have it."""
STAMP, LOG, PINS = "tf-launch-set-up", "set-up.log", "pins.txt"
"""In the virtual environment. The stamp is written last: a half-made one never counts as ready."""
SHOWN = 12
"""Lines of a step's output that an error shows."""
LARGE_DOWNLOAD = 20.0
"""MB from which a download is told of."""
CHECK = """
import json, os
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "1"
import keras, tensorflow
gpus = [device.name for device in tensorflow.config.list_physical_devices("GPU")]
print(json.dumps({"tensorflow": tensorflow.__version__, "keras": keras.__version__, "gpus": gpus}))
"""
UNREACHABLE = re.compile(
    r"NewConnectionError|Temporary failure in name resolution|Name or service not known|Network is unreachable"
    r"|No route to host|ConnectTimeout|Connection refused|ProxyError|Could not fetch URL|from versions: none"
)
OTHER_FILES = "THESE PACKAGES DO NOT MATCH THE HASHES"
FULL = re.compile(r"No space left on device|Disk quota exceeded")


class SetUpError(Exception):
    """The host cannot be set up; the message says why, the remedy what to do."""

    def __init__(self, reason: str, remedy: str = "") -> None:
        super().__init__(reason)
        self.remedy = remedy


def main() -> None:
    """Read what is wanted, and do it."""
    request = json.loads(sys.stdin.buffer.readline())
    pins = {kind: sys.stdin.buffer.read(length) for kind, length in request["pins"].items()}
    threading.Thread(target=end_with_launcher, daemon=True).start()
    try:
        done = set_up(request, pins)
    except SetUpError as error:
        tell(failed=str(error), remedy=error.remedy)
    except OSError as error:
        tell(failed=f"{error.filename}: {error.strerror}", remedy="")
    else:
        tell(done=done)


def end_with_launcher() -> NoReturn:
    """Nobody waits any more: end the step under way, with all that it has started, and this program."""
    while sys.stdin.buffer.read(1):
        pass
    Step.end_current()
    os._exit(1)


def tell(**what: Any) -> None:
    """One line for whoever waits."""
    print(WORD + json.dumps(what), flush=True)


def say(text: str) -> None:
    """One line for the user."""
    tell(say=text)


# ---- the whole
def set_up(request: dict[str, Any], pins: dict[str, bytes]) -> dict[str, Any]:
    """Find out what the host has, install what it needs, see that it works."""
    venv = os.path.abspath(os.path.expanduser(request["venv"]))
    gpus = [] if request["cuda"] == "no" else gpus_of_the_driver()
    kind = "cuda" if gpus or request["cuda"] == "yes" else "cpu"
    if kind == "cuda" and os.uname().machine != "x86_64":
        say(f"TensorFlow comes without CUDA for {os.uname().machine}: it will not use the GPUs")
        kind = "cpu"
    python = fitting_python(request)
    with only_one_at_a_time(venv):
        stamp = json.dumps({"pins": hashlib.sha256(pins[kind]).hexdigest(), "python": python, "kind": kind})
        if read(os.path.join(venv, STAMP)) == stamp:
            say(f"{tilde(venv)} is up to date")
        else:
            refuse_what_is_not_ours(venv)
            check_room(venv, request["room"][kind])
            install(venv, python, pins[kind], kind)
        found = checked(venv, gpus if kind == "cuda" else [])
        write(os.path.join(venv, STAMP), stamp)
    return {**found, "driver": gpus, "python": tilde(os.path.join(venv, "bin", "python"))}


def gpus_of_the_driver() -> list[str]:
    """A line for each GPU: name, memory, driver; nothing without a driver."""
    if shutil.which("nvidia-smi") is None:
        return []
    query = ["nvidia-smi", "--query-gpu=name,memory.total,driver_version", "--format=csv,noheader"]
    done = subprocess.run(query, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if done.returncode:
        said = (done.stdout + done.stderr).strip().splitlines() or ["no output"]
        raise SetUpError(f"nvidia-smi fails: {said[0]}", "mend the driver, or leave the GPUs out with --cpu")
    return done.stdout.strip().splitlines()


def fitting_python(request: dict[str, Any]) -> str:
    """The interpreter to use, as a real path: an upgrade of the system then breaks it visibly."""
    oldest, newest = request["oldest"], request["newest"]
    names = [f"python{oldest[0]}.{minor}" for minor in range(newest[1], oldest[1] - 1, -1)]
    candidates = [os.path.expanduser(request["python"])] if request["python"] else ["python3", *names]
    found = {}
    for name in candidates:
        path = shutil.which(name)
        if path is not None and (about := asked(path)) is not None:
            found[name] = about
            if oldest <= about["version"] <= newest and about["venv"]:
                return str(about["path"])
    raise without_python(found, oldest, newest)


def asked(python: str) -> dict[str, Any] | None:
    """What an interpreter is; None if it does not run."""
    words = "import json,sys,importlib.util as u,os;print(json.dumps({'version':sys.version_info[:2],'path':"
    words += "os.path.realpath(sys.executable),'venv':all(map(u.find_spec,('venv','ensurepip')))}))"
    done = subprocess.run([python, "-I", "-c", words], capture_output=True, text=True, stdin=subprocess.DEVNULL)
    try:
        about: dict[str, Any] = json.loads(done.stdout)
    except ValueError:
        return None
    return about


def without_python(found: dict[str, dict[str, Any]], oldest: list[int], newest: list[int]) -> SetUpError:
    """The error for when none will do."""
    wanted = f"Python {oldest[0]}.{oldest[1]} to {newest[0]}.{newest[1]}"
    for name, about in found.items():
        if oldest <= about["version"] <= newest:
            version = ".".join(map(str, about["version"]))
            return SetUpError(
                f"{tilde(name)} (Python {version}) lacks the module venv or ensurepip",
                f"on Debian and Ubuntu: sudo apt install python{version}-venv",
            )
    there = (
        ", ".join(f"{tilde(name)} is {'.'.join(map(str, about['version']))}" for name, about in found.items()) or "none"
    )
    newer = f"{newest[0]}.{newest[1] - 1}"
    advice = f"install one (Debian, Ubuntu: sudo apt install python{newer}-venv), or name one with --python"
    return SetUpError(f"TensorFlow needs {wanted}; found: {there}", advice)


# ---- the place
@contextmanager
def only_one_at_a_time(venv: str) -> Iterator[None]:
    """Two set-ups of one place would undo each other."""
    os.makedirs(os.path.dirname(venv), exist_ok=True)
    with open(f"{venv}.lock", "w", encoding="utf-8") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise SetUpError(f"another set-up of {tilde(venv)} is under way", "wait for it, then try again") from None
        yield


def refuse_what_is_not_ours(venv: str, remedy: str = "name another --venv, or remove it") -> None:
    """Never delete what something else has made."""
    if os.path.lexists(venv) and not os.path.isdir(venv):
        raise SetUpError(f"{tilde(venv)} is no directory", remedy)
    if os.path.isdir(venv) and os.listdir(venv) and not os.path.exists(os.path.join(venv, LOG)):
        raise SetUpError(f"something else has made {tilde(venv)}", remedy)


def check_room(venv: str, needed: float) -> None:
    """See that the disk has as many bytes left, beside what an earlier set-up will give back."""
    space = os.statvfs(os.path.dirname(venv))
    free = space.f_bavail * space.f_frsize + size_of(venv)
    if free < needed:
        found = f"{gigabytes(needed)} are needed, {gigabytes(free)} are free"
        raise SetUpError(f"{tilde(venv)}: not enough room: {found}", "make room, or name another --venv")


def size_of(directory: str) -> int:
    """Bytes on the disk."""
    found = 0
    for path, _, names in os.walk(directory):
        found += sum(os.lstat(os.path.join(path, name)).st_blocks * 512 for name in names)
    return found


def install(venv: str, python: str, pins: bytes, kind: str) -> None:
    """Make the environment anew, and install the pins."""
    if os.path.isdir(venv):
        say(f"removing the half-made or outdated {tilde(venv)}")
        shutil.rmtree(venv)
    os.makedirs(venv)
    write(os.path.join(venv, LOG), "")
    write(os.path.join(venv, PINS), pins.decode())
    say(f"making {tilde(venv)} with {python}")
    Step(venv, [python, "-I", "-m", "venv", venv]).run()
    say(f"installing TensorFlow{' with CUDA' if kind == 'cuda' else ''}, all files checked against their hashes")
    options = ["--no-cache-dir", "--require-hashes", "-r", os.path.join(venv, PINS)]
    Step(venv, [*pip_install(venv), *options]).run(tell_of_progress)


def pip_install(venv: str) -> list[str]:
    """The words that install something into an environment, and ask nobody."""
    python = os.path.join(venv, "bin", "python")
    return [python, "-I", "-m", "pip", "install", "--disable-pip-version-check", "--no-input", "--progress-bar=off"]


def checked(venv: str, gpus: list[str]) -> dict[str, Any]:
    """What TensorFlow says of itself and of the GPUs."""
    python = os.path.join(venv, "bin", "python")
    done = subprocess.run([python, "-I", "-c", CHECK], capture_output=True, text=True, stdin=subprocess.DEVNULL)
    lines = done.stdout.strip().splitlines()
    if done.returncode or not lines:
        said = done.stderr.strip().splitlines()[-SHOWN:]
        raise SetUpError("TensorFlow does not start:\n" + "\n".join(said), f"see {tilde(os.path.join(venv, LOG))}")
    found: dict[str, Any] = json.loads(lines[-1])
    if gpus and not found["gpus"]:
        said = [line for line in done.stderr.splitlines() if re.search("GPU|CUDA|cuda|dlopen", line)]
        why = f": {said[-1].strip()}" if said else ""
        remedy = "its driver may be too old for this TensorFlow (see nvidia-smi), or in use by nobody but root"
        raise SetUpError(f"TensorFlow uses none of the {len(gpus)} GPUs ({gpus[0]}){why}", remedy)
    return found


class Step:
    """A program that takes its time: `python -m venv`, or pip. What it says goes to the log of the environment.

    Here and on hosts; `scripts/set_up_venv.py` has the other use.
    """

    current: subprocess.Popen[str] | None = None

    def __init__(self, venv: str, argv: list[str]) -> None:
        self._venv = venv
        self._argv = argv
        self._log = os.path.join(venv, LOG)

    def run(self, hear: Callable[[str], None] | None = None, inherited: Iterable[int] = ()) -> None:
        """Return once it has ended well. Temporary files stay below the environment, whatever happens to the step.

        Args:
            hear: gets each line that it says.
            inherited: descriptors that it gets, and keeps open while it runs.

        Raises:
            SetUpError: it has failed.
        """
        temporary = os.path.join(self._venv, "tmp")
        os.makedirs(temporary, exist_ok=True)
        environment = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "PYTHONHOME")}
        with open(self._log, "a", encoding="utf-8") as log:
            process = Step.current = subprocess.Popen(
                self._argv,
                stdin=subprocess.DEVNULL,
                cwd=self._venv,
                # Without a pipe the program outlives us: what it has begun, it ends.
                stdout=subprocess.PIPE if hear else log,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                env={**environment, "TMPDIR": temporary},
                pass_fds=tuple(inherited),
                start_new_session=True,
            )
            try:
                for line in process.stdout or ():
                    log.write(line)
                    if hear:
                        hear(line)
                code = process.wait()
            except BaseException:
                Step.end_current()
                process.wait()
                raise
        Step.current = None
        shutil.rmtree(temporary)
        if code:
            raise self._error(code)

    def _error(self, code: int) -> SetUpError:
        text = "\n".join(read(self._log).splitlines()[-SHOWN:])
        step = "python -m venv" if "venv" in self._argv else "pip install"
        remedy = f"the whole output is in {tilde(self._log)}"
        if FULL.search(text):
            remedy = "make room, or choose another place for it"
        elif UNREACHABLE.search(text):
            remedy = "the host must reach a package index: set its proxy (https_proxy) or a mirror (pip config set "
            remedy += f"global.index-url URL) there, then try again; {tilde(self._log)} has the whole output"
        elif OTHER_FILES in text:
            remedy = "the package index of that host serves other files than those that are pinned: use another one"
        return SetUpError(f"`{step}` ended with exit code {code}:\n{text}", remedy)

    @classmethod
    def end_current(cls) -> None:
        """Kill the one under way."""
        if cls.current is not None:
            os.killpg(cls.current.pid, signal.SIGKILL)


def tell_of_progress(line: str) -> None:
    """What takes long is said."""
    if (found := re.match(r"\s*Downloading (\S+)\s.*\(([\d.]+) MB\)", line)) and float(found[2]) >= LARGE_DOWNLOAD:
        say(f"downloading {found[1].rpartition('/')[2]} ({found[2]} MB)")
    elif line.startswith("Installing collected packages"):
        say("unpacking")


# ---- small things
def tilde(path: str) -> str:
    """A path as it stands in a cluster file."""
    home = os.path.expanduser("~")
    return f"~{path[len(home) :]}" if path.startswith(f"{home}/") else path


def gigabytes(size: float) -> str:
    """`2.2 GB`."""
    return f"{size / 1e9:.1f} GB"


def read(path: str) -> str:
    """A file's text; nothing if there is none."""
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except OSError:
        return ""


def write(path: str, text: str) -> None:
    """Write a file whole."""
    with open(f"{path}.new", "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(f"{path}.new", path)


if __name__ == "__main__":
    main()
