"""Whose a run directory is at the moment: one living launcher's, which holds a lock until it ends, however it does.

The lock is the kernel's (`flock` on the file `lock`), so it needs no tidying up and no clock, and other PID namespaces
and, on most shared file systems, other machines see it. Beside it the holder makes a file `holder-N`, with a number
that no other has: it says who that is, and is what counts where the file system has no locks, or none that reach
other machines.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import time
from collections.abc import Iterator
from dataclasses import asdict
from datetime import datetime
from enum import IntEnum
from pathlib import Path
from typing import NamedTuple

from launcher.caller.own_files import ForeignError, open_own, own_directory, read_own
from launcher.errors import LaunchError, UsageError
from launcher.run_directory.launcher_process import Launcher, Life
from launcher.run_directory.whole_files import shown, write_all

LOCK = "lock"
CLAIM = "holder-"
LAUNCH, COLLECT, DRY_RUN = "launch", "launch collect", "launch --dry-run"
"""What a directory is held for. A dry run writes nothing."""
NO_LOCKS = (errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS)
SIGNING = 1.0
"""Seconds in which whoever has just got the lock writes down who that is."""
LOOK = 0.02
LARGEST = 1 << 16
MOUNTS = Path("/proc/self/mountinfo")
LOCKING_ALONE = {"nolock", "local_lock=flock", "local_lock=all", "localflock", "localflocks", "nobrl"}
"""Options of NFS, Lustre, GFS2 and SMB with which a machine keeps its locks for itself."""
KEEPING_LOCKS = ("fuse", "9p", "virtiofs", "beegfs", "vboxsf")
"""How the names of file systems begin that mostly do."""


class Reach(IntEnum):
    """Which machines see the lock of a directory."""

    NOBODY = 0
    THIS_MACHINE = 1
    EVERY_MACHINE = 2


class Holder(NamedTuple):
    """Who has a directory, or had it and did not live to let it go."""

    launcher: Launcher
    does: str
    since: str
    """ISO 8601, for a person."""
    reach: int
    """Of its lock: a value of `Reach`."""
    directory: int = 0
    """Its inode, and that of the file that is locked; 0 in the files of earlier versions."""
    lock: int = 0

    @property
    def told(self) -> str:
        """Who and since when, for a message."""
        return f"{self.launcher.place}, since {self.since}"

    @property
    def remedy(self) -> str:
        """How a person gets the holder out of the way."""
        here = self.launcher.is_seen_from(Launcher.this_process())
        if not here:
            return "stop it there first"
        pid = self.launcher.pid
        wake = f"; kill -CONT {pid}, for it is suspended" if self.launcher.is_suspended() else ""
        return f"stop it first (kill {pid}{wake})"


class HeldError(UsageError):
    """Somebody else has the directory."""

    def __init__(self, directory: Path, holder: Holder | None, reach: Reach = Reach.NOBODY) -> None:
        self.is_running = holder is not None and holder.does == LAUNCH
        self.by_lock = reach is not Reach.NOBODY
        name = shown(Path(directory.name))
        if holder is None:
            told = f"run {name} was taken by another launcher just now; wait for its end"
        elif holder.does == COLLECT:
            told = (
                f"run {name}: `launch collect` ({holder.told}) brings its files; wait for its end, or {holder.remedy}"
            )
        else:
            told = f"run {name} still runs (launcher: {holder.told}); {holder.remedy}, or wait for its end"
        super().__init__(told)


class UnknownHolderError(UsageError):
    """Somebody may have the directory, and nobody here can know."""

    def __init__(self, directory: Path, holder: Holder | None) -> None:
        who = f"its launcher, {holder.told}," if holder else "a launcher that has not said who it is"
        super().__init__(
            f"run {shown(Path(directory.name))}: whether {who} still runs cannot be seen from here: the locks of "
            "this file system do not reach that far, or its file `lock` was removed. Look there; if it has gone, add "
            "--take-over"
        )


class Hold:
    """A directory that no other launcher has, until this process ends or lets it go."""

    def __init__(self, directory: Path, does: str, *, take_over: bool = False) -> None:
        """Take the directory. `take_over`: the user knows that a launcher which cannot be asked has gone.

        Raises:
            HeldError: another launcher has it.
            UnknownHolderError: another launcher may have it.
            UsageError: the directory is not this user's alone.
            LaunchError: it cannot be taken.
        """
        self._path = directory
        self._claim: Path | None = None
        self._fd = _opened(directory, create=does != DRY_RUN)
        try:
            reach = self._lock()
            number, before = _last_claim(directory)
            if number and not _is_over(before, reach, *self._inodes()):
                self._refuse(before or _signed(_claim(directory, number)), take_over)
            if does != DRY_RUN:
                self._sign(number + 1, does, reach)
        except OSError as error:
            self.release()
            raise LaunchError(f"{shown(directory)}: cannot be held: {error.strerror}.") from error
        except BaseException:
            self.release()
            raise

    def release(self) -> None:
        """Let others have the directory. A second call does nothing."""
        if self._claim is not None:
            for number in _claims(self._path):
                with contextlib.suppress(OSError):
                    _claim(self._path, number).unlink()
            self._claim = None
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _lock(self) -> Reach:
        if self._fd < 0:
            return Reach.NOBODY
        until = time.monotonic() + SIGNING
        while True:
            try:
                fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                holder = _last_claim(self._path)[1]
                has_signed = holder is not None and holder.launcher.life() is not Life.GONE
                if has_signed or time.monotonic() >= until:
                    raise HeldError(self._path, holder if has_signed else None, _reach(self._fd)) from None
                time.sleep(LOOK)
            except OSError as error:
                if error.errno in NO_LOCKS:
                    return Reach.NOBODY
                raise
            else:
                return _reach(self._fd)

    def _inodes(self) -> tuple[int, int]:
        """The inodes of the directory and of the file that is locked."""
        return self._path.stat().st_ino, os.fstat(self._fd).st_ino if self._fd >= 0 else 0

    def _refuse(self, before: Holder | None, take_over: bool) -> None:
        life = before.launcher.life() if before else Life.UNKNOWN
        if life is Life.ALIVE:
            raise HeldError(self._path, before)
        if life is Life.UNKNOWN and not take_over:
            raise UnknownHolderError(self._path, before)

    def _sign(self, number: int, does: str, reach: Reach) -> None:
        claim = _claim(self._path, number)
        since = datetime.now().astimezone().isoformat(timespec="seconds")
        holder = Holder(Launcher.this_process(), does, since, reach, *self._inodes())
        record = holder._asdict() | {"launcher": asdict(holder.launcher)}
        try:
            fd = os.open(claim, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        except FileExistsError:
            raise HeldError(self._path, _signed(claim)) from None
        self._claim = claim
        try:
            write_all(fd, json.dumps(record).encode())
        finally:
            os.close(fd)


def _opened(directory: Path, *, create: bool) -> int:
    """The file that is locked; -1: there is none. No other program inherits it."""
    try:
        with own_directory(directory) as place:
            return open_own(place, LOCK, directory, os.O_RDWR | (os.O_CREAT if create else 0))
    except ForeignError as error:
        raise UsageError(str(error)) from error
    except FileNotFoundError as error:
        if not create:
            return -1
        raise LaunchError(f"{shown(directory)}: it is gone.") from error
    except OSError as error:
        no_file = error.errno in (None, errno.ELOOP, errno.EISDIR)
        why = "it is no regular file; remove it" if no_file else error.strerror
        raise LaunchError(f"{shown(directory / LOCK)}: cannot be opened: {why}.") from error


def _is_over(before: Holder | None, reach: Reach, directory: int, lock: int) -> bool:
    """Whether it is certain that who held the directory has gone: this launcher has got the lock that the other had.

    Not where that file has been removed, for the other may still lock it; a copy of its directory it never held.
    """
    if before is None:  # killed while it signed
        return reach is Reach.EVERY_MACHINE
    if not reach or not before.reach:
        return False
    if reach is Reach.EVERY_MACHINE and before.directory not in (0, directory):
        return True
    if before.lock not in (0, lock):
        return False
    is_this_machine = before.launcher.boot_id == Launcher.this_process().boot_id != ""
    return is_this_machine or min(before.reach, reach) == Reach.EVERY_MACHINE


def _last_claim(directory: Path) -> tuple[int, Holder | None]:
    """The number of the newest claim, or 0, and its holder, if it says who that is."""
    last = max(_claims(directory), default=0)
    return last, _read(_claim(directory, last)) if last else None


def _claims(directory: Path) -> list[int]:
    numbers = (path.name.removeprefix(CLAIM) for path in directory.glob(f"{CLAIM}*"))
    return [int(number) for number in numbers if number.isdecimal()]


def _claim(directory: Path, number: int) -> Path:
    return directory / f"{CLAIM}{number}"


def _signed(claim: Path) -> Holder | None:
    """The holder that a claim names, as soon as its writer has done that."""
    until = time.monotonic() + SIGNING
    while (holder := _read(claim)) is None and time.monotonic() < until:
        time.sleep(LOOK)
    return holder


def _read(claim: Path) -> Holder | None:
    try:
        told = json.loads(read_own(claim.parent, claim.name, LARGEST))
        inodes = (int(told.get(name, 0)) for name in ("directory", "lock"))
        return Holder(Launcher(**told["launcher"]), str(told["does"]), str(told["since"]), int(told["reach"]), *inodes)
    except (ForeignError, OSError, ValueError, LookupError, TypeError):
        return None  # it is being written, or its writer was killed in the middle of that


def _reach(fd: int) -> Reach:
    """Whether the locks of an open file's file system reach other machines. One of this machine alone has no others."""
    for kind, options in _mounts(os.fstat(fd).st_dev):
        if kind.startswith(KEEPING_LOCKS) or LOCKING_ALONE & options:
            return Reach.THIS_MACHINE
    return Reach.EVERY_MACHINE


def _mounts(device: int) -> Iterator[tuple[str, set[str]]]:
    """Kind and options of a file system, as proc(5) has them."""
    number = f"{os.major(device)}:{os.minor(device)}"
    try:
        lines = MOUNTS.read_text(errors="replace").splitlines()
    except OSError:
        return
    for line in lines:
        about, _, what = line.partition(" - ")
        if about.split()[2:3] == [number]:
            kind, _, options = what.split(" ", 2)
            yield kind, set(options.split(","))
