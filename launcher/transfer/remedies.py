"""What to do about a file that a host cannot take. Pure."""

from __future__ import annotations


def remedy(code: str, *, no_room: str, no_permission: str, occupied: str, otherwise: str) -> str:
    """One of these, by the system's name of the error (`ENOSPC`)."""
    if code in ("ENOSPC", "EDQUOT"):
        return no_room
    if code in ("EACCES", "EPERM", "EROFS"):
        return no_permission
    return occupied if code in ("EEXIST", "ENOTDIR", "EISDIR", "ELOOP") else otherwise
