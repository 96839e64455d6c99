"""Makes sure that only one launcher uses a run directory at a time. It holds a lock until it ends, however it ends.

Why a lock and a file: two launchers that write to one run would destroy it, so "probably nobody has it" is not enough.
A pid in a file alone proves nothing: the pid may be another process's by now, or one of another machine or container.
A lock of the kernel (`flock` on the file `lock`) needs no clean-up and no clock: it ends with its process, and other
PID namespaces and, on most shared file systems, other machines see it. But some file systems have no locks, or keep
them on one machine.

So the holder also creates a file `holder-N`, where N is a number that nobody else has, and writes there who it is. The
next launcher that gets the lock reads the newest of these files. It goes on if the lock that it now has proves that the
former holder is gone (`_is_over`), or if that process can be seen to be dead. Otherwise it refuses, and the user, who
knows more, may say `--take-over`.
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
"""What a directory is held for. A dry run creates no files."""
NO_LOCKS = (errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS)
SIGNING = 1.0
"""Seconds that a launcher which has just got the lock needs at most to write its `holder-N`."""
LOOK = 0.02
LARGEST = 1 << 16
MOUNTS = Path("/proc/self/mountinfo")
LOCAL_LOCK_OPTIONS = {"nolock", "local_lock=flock", "local_lock=all", "localflock", "localflocks", "nobrl"}
"""Mount options of NFS, Lustre, GFS2 and SMB by which locks stay on one machine."""
LOCAL_LOCK_KINDS = ("fuse", "9p", "virtiofs", "beegfs", "vboxsf")
"""Prefixes of the names of file systems whose locks mostly stay on one machine."""


class Reach(IntEnum):
    """Which machines see the lock of a directory: a lock proves nothing to the others."""

    NOBODY = 0
    THIS_MACHINE = 1
    EVERY_MACHINE = 2


class Holder(NamedTuple):
    """The launcher that holds a directory, or held it and died."""

    launcher: Launcher
    does: str
    since: str
    """ISO 8601, for a person."""
    reach: int
    """A value of `Reach`: which machines saw its lock."""
    directory: int = 0
    """The inodes of the directory and, in `lock`, of the locked file; 0 in the files of earlier versions."""
    lock: int = 0

    @property
    def description(self) -> str:
        """Which process and since when, for a message."""
        return f"{self.launcher.place}, since {self.since}"

    @property
    def remedy(self) -> str:
        """How to get the holder out of the way."""
        here = self.launcher.is_seen_from(Launcher.this_process())
        if not here:
            return "stop it there first"
        pid = self.launcher.pid
        wake = f"; kill -CONT {pid}, for it is suspended" if self.launcher.is_suspended() else ""
        return f"stop it first (kill {pid}{wake})"


class HeldError(UsageError):
    """Another launcher holds the directory."""

    def __init__(self, directory: Path, holder: Holder | None, reach: Reach = Reach.NOBODY) -> None:
        self.is_running = holder is not None and holder.does == LAUNCH
        self.by_lock = reach is not Reach.NOBODY
        name = shown(Path(directory.name))
        if holder is None:
            message = f"run {name} was taken by another launcher just now; wait for its end"
        elif holder.does == COLLECT:
            message = (
                f"run {name}: `launch collect` ({holder.description}) brings its files; wait for its end, "
                f"or {holder.remedy}"
            )
        else:
            message = f"run {name} still runs (launcher: {holder.description}); {holder.remedy}, or wait for its end"
        super().__init__(message)


class UnknownHolderError(UsageError):
    """Another launcher may hold the directory, and that cannot be known from here."""

    def __init__(self, directory: Path, holder: Holder | None) -> None:
        who = f"its launcher, {holder.description}," if holder else "a launcher that has not said who it is"
        super().__init__(
            f"run {shown(Path(directory.name))}: whether {who} still runs cannot be seen from here: the locks of "
            "this file system do not reach that far, or its file `lock` was removed. Look there; if it has gone, add "
            "--take-over"
        )


class Hold:
    """A directory that no other launcher uses until this process ends or releases it."""

    def __init__(self, directory: Path, does: str, *, take_over: bool = False) -> None:
        """Hold the directory. `take_over`: the user knows that a former holder which cannot be checked is gone.

        Raises:
            HeldError: another launcher holds it.
            UnknownHolderError: another launcher may hold it.
            UsageError: another user owns the directory or may write in it.
            LaunchError: it cannot be locked, or `holder-N` cannot be written.
        """
        self._path = directory
        self._claim: Path | None = None
        self._fd = _opened(directory, create=does != DRY_RUN)
        try:
            reach = self._lock()
            number, before = _newest_claim(directory)
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
        """Let others use the directory. A second call does nothing."""
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
                holder = _newest_claim(self._path)[1]
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
    """Open the file to lock; -1 if it is missing and not to be created. Child processes do not inherit it."""
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
    """Whether the lock that this launcher has got proves that the former holder is gone.

    It does if the former holder had the same lock, and if that reached this machine. It does not if the file was
    removed and created again: the other may still lock the old one. A directory with another inode is a copy, which the
    former holder never held.
    """
    if before is None:  # it was killed while it wrote its file
        return reach is Reach.EVERY_MACHINE
    if not reach or not before.reach:
        return False
    if reach is Reach.EVERY_MACHINE and before.directory not in (0, directory):
        return True
    if before.lock not in (0, lock):
        return False
    is_this_machine = before.launcher.boot_id == Launcher.this_process().boot_id != ""
    return is_this_machine or min(before.reach, reach) == Reach.EVERY_MACHINE


def _newest_claim(directory: Path) -> tuple[int, Holder | None]:
    """The number of the newest `holder-N`, or 0, and what it says, if it is complete."""
    last = max(_claims(directory), default=0)
    return last, _read(_claim(directory, last)) if last else None


def _claims(directory: Path) -> list[int]:
    numbers = (path.name.removeprefix(CLAIM) for path in directory.glob(f"{CLAIM}*"))
    return [int(number) for number in numbers if number.isdecimal()]


def _claim(directory: Path, number: int) -> Path:
    return directory / f"{CLAIM}{number}"


def _signed(claim: Path) -> Holder | None:
    """The holder in a file that may still be being written: waits `SIGNING` seconds for it."""
    until = time.monotonic() + SIGNING
    while (holder := _read(claim)) is None and time.monotonic() < until:
        time.sleep(LOOK)
    return holder


def _read(claim: Path) -> Holder | None:
    try:
        record = json.loads(read_own(claim.parent, claim.name, LARGEST))
        inodes = (int(record.get(name, 0)) for name in ("directory", "lock"))
        return Holder(
            Launcher(**record["launcher"]), str(record["does"]), str(record["since"]), int(record["reach"]), *inodes
        )
    except (ForeignError, OSError, ValueError, LookupError, TypeError):
        return None  # it is being written, or its writer was killed meanwhile


def _reach(fd: int) -> Reach:
    """Which machines see a lock on an open file. On a local disk that is every machine that sees the file."""
    for kind, options in _mounts(os.fstat(fd).st_dev):
        if kind.startswith(LOCAL_LOCK_KINDS) or LOCAL_LOCK_OPTIONS & options:
            return Reach.THIS_MACHINE
    return Reach.EVERY_MACHINE


def _mounts(device: int) -> Iterator[tuple[str, set[str]]]:
    """Type and options of a mounted file system (proc(5)), for each of its mounts."""
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
