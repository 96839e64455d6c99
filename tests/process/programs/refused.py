"""Run a program whose kernel refuses further threads, or processes, as it does above a limit of the user.

refused.py threads|processes COMMAND...
"""

from __future__ import annotations

import ctypes
import os
import platform
import struct
import sys

LOAD, EQUALS, ANY_OF, RETURN = 0x20, 0x15, 0x45, 0x06
NUMBER_AT, FLAGS_AT = 0, 16
CLONE_THREAD = 0x10000
ALLOW, REFUSE, UNKNOWN = 0x7FFF0000, 0x00050000 | 11, 0x00050000 | 38
CALLS = {"x86_64": {"clone": 56, "fork": 57, "vfork": 58, "clone3": 435}, "aarch64": {"clone": 220, "clone3": 435}}
PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, FILTER = 38, 22, 2


def refusing(what: str) -> list[tuple[int, int, int, int]]:
    """A filter for seccomp(2): instructions of code, jumps if true and if false, operand."""
    calls = CALLS[platform.machine()]
    threads, processes = (REFUSE, ALLOW) if what == "threads" else (ALLOW, REFUSE)
    program = [
        (LOAD, 0, 0, NUMBER_AT),
        (EQUALS, 0, 1, calls["clone3"]),
        (RETURN, 0, 0, UNKNOWN),  # its flags cannot be seen here; then clone is used
        (EQUALS, 0, 4, calls["clone"]),
        (LOAD, 0, 0, FLAGS_AT),
        (ANY_OF, 0, 1, CLONE_THREAD),
        (RETURN, 0, 0, threads),
        (RETURN, 0, 0, processes),
    ]
    for name in ("fork", "vfork"):
        if name in calls:
            program += [(EQUALS, 0, 1, calls[name]), (RETURN, 0, 0, processes)]
    return [*program, (RETURN, 0, 0, ALLOW)]


def refuse(what: str) -> None:
    """From now on, for this process and all that it becomes."""
    program = refusing(what)
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *each) for each in program))
    filter_ = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(program), ctypes.addressof(code)))
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    if libc.prctl(PR_SET_SECCOMP, FILTER, filter_, 0, 0):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


if __name__ == "__main__":
    refuse(sys.argv[1])
    os.execvp(sys.argv[2], sys.argv[2:])
