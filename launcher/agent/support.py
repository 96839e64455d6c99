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
        path = os.path.join(os.path.expanduser(root), name)
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        with open(f"{path}.new", "wb") as file:
            file.write(body[at : at + size])
        os.replace(f"{path}.new", path)
        at += size
