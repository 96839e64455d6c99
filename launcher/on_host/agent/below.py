"""Opens, writes and removes what is in a directory of ours, through its descriptor: no symbolic link is followed."""

from __future__ import annotations

import errno
import os
import stat

from launcher.on_host.agent.own_directory import BELOW, OTHERS_MAY_WRITE, UnsafeError, not_a_directory, user_name


def directory_below(directory: int, name: str) -> int:
    """Open a directory within one of ours; make it if it is missing.

    Raises:
        UnsafeError: it is a link, another user's, or writable for more users than its parent.
        OSError: no room...
    """
    place = os.path.join(path_of(directory), name)
    try:
        os.mkdir(name, 0o700, dir_fd=directory)
    except FileExistsError:
        pass
    except OSError as error:
        raise OSError(error.errno, error.strerror, place) from error
    try:
        fd = os.open(name, BELOW, dir_fd=directory)
    except OSError as error:
        raise not_a_directory(error, place) from error
    above, found = os.fstat(directory), os.fstat(fd)
    if found.st_uid != above.st_uid or found.st_mode & OTHERS_MAY_WRITE & ~above.st_mode:
        os.close(fd)
        mode = f"{stat.S_IMODE(found.st_mode):04o}"
        raise UnsafeError(place, f"it is not only ours (owner {user_name(found.st_uid)}, mode {mode}); remove it")
    return fd


def appended_below(directory: int, name: str) -> int:
    """Open a file in a directory of ours to append to it; make it if it is missing.

    Raises:
        UnsafeError: it is a symbolic link, has other hard links, or is no regular file of ours.
        OSError: no room...
    """
    place = os.path.join(path_of(directory), name)
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        fd = os.open(name, flags, 0o600, dir_fd=directory)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):  # a FIFO that nobody reads
            raise UnsafeError(place, "this is no file of ours; remove it") from error
        raise OSError(error.errno, error.strerror, place) from error
    found = os.fstat(fd)
    if not stat.S_ISREG(found.st_mode) or found.st_nlink != 1 or found.st_uid != os.fstat(directory).st_uid:
        os.close(fd)
        raise UnsafeError(place, "this is no file of ours; remove it")
    os.set_blocking(fd, True)
    return fd


def write_below(directory: int, name: str, data: bytes) -> None:
    """Write a file in a directory of ours, whole or not at all.

    Raises:
        OSError: no room...
    """
    unfinished = f".{name}.{os.urandom(8).hex()}"  # unique: hosts may share the disk
    try:
        fd = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=directory)
        try:
            with os.fdopen(fd, "wb") as file:
                file.write(data)
            os.replace(unfinished, name, src_dir_fd=directory, dst_dir_fd=directory)
        except OSError:
            os.unlink(unfinished, dir_fd=directory)
            raise
    except OSError as error:
        raise OSError(error.errno, error.strerror, os.path.join(path_of(directory), name)) from error


def remove_below(directory: int, name: str) -> None:
    """Remove an entry of a directory with everything in it; no link is followed.

    Raises:
        OSError: something cannot be removed.
    """
    try:
        fd = os.open(name, BELOW, dir_fd=directory)
    except FileNotFoundError:
        return
    except OSError as error:
        if error.errno not in (errno.ENOTDIR, errno.ELOOP):
            raise
        os.unlink(name, dir_fd=directory)
        return
    try:
        for each in os.listdir(fd):
            remove_below(fd, each)
    finally:
        os.close(fd)
    os.rmdir(name, dir_fd=directory)


def path_of(directory: int) -> str:
    """The path of an open directory, for messages."""
    try:
        return os.readlink(f"/proc/self/fd/{directory}")
    except OSError:
        return ""
