"""Files that the launcher brings along for a run: what a worker needs of ours on a host that has nothing of it."""

from __future__ import annotations

import os


def write_files(root: str, files: list[list[object]], body: bytes) -> None:
    """Write `files` ([path below `root`, size] each) from `body`, which holds one after the other.

    Raises:
        OSError: no room, no permission...
    """
    at = 0
    for name, size in files:
        assert isinstance(name, str)
        assert isinstance(size, int)
        write_file(os.path.join(os.path.expanduser(root), name), body[at : at + size])
        at += size


def held_directory(root: str) -> int:
    """Make the directory of a run, and keep it open: that tells whoever cleans up that the run is under way.

    Raises:
        OSError: no room, no permission...
    """
    path = os.path.expanduser(root)
    os.makedirs(path, mode=0o700, exist_ok=True)
    return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)


def write_file(path: str, data: bytes) -> None:
    """Write a file whole or not at all.

    Raises:
        OSError: with the path in it, whatever went wrong.
    """
    unfinished = f"{path}.new"
    try:
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        with open(unfinished, "wb") as file:
            file.write(data)
        os.replace(unfinished, path)
    except OSError as error:
        if os.path.exists(unfinished):
            os.unlink(unfinished)
        raise OSError(error.errno, error.strerror, path) from error
