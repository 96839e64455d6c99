"""Makes `.venv` hold exactly the pinned packages, then starts the script that asked for it anew.

Started by `venv.sh`: `set_up_venv.py LEVEL PINS SCRIPT [ARGUMENT...]`. Uses the standard library only.
Whatever stops it, even SIGKILL, a half-made `.venv` never counts as ready: the stamp is written last.
"""

from __future__ import annotations

import fcntl
import importlib.util
import os
import shutil
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import NoReturn

from on_host.set_up import SetUpError, Step, pip_install, refuse_what_is_not_ours

ROOT = Path(__file__).resolve().parents[1]
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
STAMP = VENV / "set-up"
LOG = VENV / "set-up.log"
LOCK = ROOT / ".venv.lock"
PIN_FILES = {"run": ROOT / "constraints.txt", "test": ROOT / "constraints-test.txt"}
EXIT_NOT_SET_UP = 3


def main(level: str, pins: str, script: str, *arguments: str) -> NoReturn:
    """Set `.venv` up where that is still needed, then become `script`."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, exit_by_signal)
    try:
        with only_one_at_a_time() as lock:
            if not is_set_up(level, pins):
                set_up(level, pins, lock)
    except (SetUpError, OSError) as error:
        remedy = error.remedy if isinstance(error, SetUpError) else ""
        say(f"error: could not set up {VENV}: {error}" + (f"\n  {remedy}" if remedy else ""))
        sys.exit(EXIT_NOT_SET_UP)
    except KeyboardInterrupt:
        say("interrupted: the next run starts the set-up over")
        sys.exit(128 + signal.SIGINT)
    os.execv(script, [script, *arguments])


def exit_by_signal(number: int, _frame: FrameType | None) -> NoReturn:
    """Unwind, so that pip is stopped too."""
    sys.exit(128 + number)


@contextmanager
def only_one_at_a_time() -> Iterator[int]:
    """Hold the lock; its descriptor is handed to pip, so that a pip that outlives a killed set-up is waited for."""
    with LOCK.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("Another process is setting up .venv: waiting for it ...")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield lock.fileno()


def is_set_up(level: str, pins: str) -> bool:
    """Whether the stamp says so; the same test as in `venv.sh`."""
    return os.access(PYTHON, os.X_OK) and read_stamp() in {(level, pins), ("test", pins)}


def read_stamp() -> tuple[str, str]:
    """The level and the pins of the last finished set-up; empty strings where there is none."""
    try:
        level, _, pins = STAMP.read_text().partition("\n")
    except FileNotFoundError:
        return "", ""
    return level, pins.removesuffix("\n")


def set_up(level: str, pins: str, lock: int) -> None:
    """Make or update `.venv`.

    Raises:
        SetUpError: pip or venv failed, or cannot work here.
    """
    stamped = read_stamp()
    started = time.monotonic()
    if str(PIN_FILES["run"]) in stamped[1] and os.access(PYTHON, os.X_OK):
        level = "test" if "test" in {level, stamped[0]} else "run"
        say("Updating .venv ...")
        STAMP.unlink()
        try:
            install(level, lock)
        except SetUpError:
            # pip downloads everything before it touches anything, and undoes what it did: the old state still stands.
            write_stamp(*stamped)
            raise
    else:
        say("Setting up .venv (first run, about 600 MB to download) ...")
        make_venv(lock)
        install(level, lock)
    write_stamp(level, pins)
    say(f".venv is ready ({time.monotonic() - started:.0f} s).")


def make_venv(lock: int) -> None:
    """Replace what an earlier set-up left by a virtual environment that holds only pip."""
    check_venv_can_be_made()
    VENV.mkdir(exist_ok=True)
    for entry in VENV.iterdir():
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        elif entry != LOG:
            entry.unlink()
    LOG.write_text("")
    # The real file of the interpreter has its version in its name: an upgrade of the system then leaves a dangling
    # link, which is noticed, and not a newer interpreter that finds no package.
    interpreter = os.path.realpath(getattr(sys, "_base_executable", sys.executable))
    run([interpreter, "-I", "-m", "venv", str(VENV)], lock)


def check_venv_can_be_made() -> None:
    """Refuse what would fail later with a message that explains nothing, or destroy what is not ours."""
    if importlib.util.find_spec("venv") is None or importlib.util.find_spec("ensurepip") is None:
        version = "{}.{}".format(*sys.version_info)
        raise SetUpError(
            f"{sys.executable} lacks the module venv or ensurepip",
            f"on Debian and Ubuntu: apt install python{version}-venv",
        )
    if "\n" in str(ROOT) or os.pathsep in str(ROOT):
        raise SetUpError("Python allows neither ':' nor a newline in its path", "move the checkout")
    refuse_what_is_not_ours(str(VENV), "remove it, or move it away")


def install(level: str, lock: int) -> None:
    """Install the pins, each file checked against its hash, and this project as it stands in the checkout."""
    run([*pip_install(str(VENV)), "--require-hashes", "-r", str(PIN_FILES[level])], lock)
    run([*pip_install(str(VENV)), "--no-deps", "--no-index", "--no-build-isolation", "--editable", str(ROOT)], lock)


def run(argv: list[str], lock: int) -> None:
    """Run one step. It has the lock as well, so that one that outlives a killed set-up is waited for."""
    Step(str(VENV), argv).run(inherited=[lock])


def write_stamp(level: str, pins: str) -> None:
    """Put the stamp in place in one step: nobody sees a part of it."""
    unfinished = STAMP.with_suffix(".new")
    unfinished.write_text(f"{level}\n{pins}\n")
    unfinished.replace(STAMP)


def say(text: str) -> None:
    """Tell the user; stdout belongs to the program that starts afterwards."""
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
