"""The modes of files, as they bind everybody but root: for tests that root runs, too."""

from __future__ import annotations

import contextlib
import ctypes
import os
from collections.abc import Iterator

from launcher.on_host.agent.processes import prctl

PR_CAPBSET_DROP, CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH = 24, 1, 2
PR_GET_SECUREBITS, PR_SET_SECUREBITS, NOROOT, NO_SETUID_FIXUP = 27, 28, 1 << 0, 1 << 2
"""Without the last two root gets its power back with a new program, and access(2) answers as if it had it."""
_VERSION_3 = 0x20080522


def obey_modes() -> None:
    """What this process is about to execute may not read or write against the modes of files, not even as root."""
    if os.geteuid() == 0:
        for capability in (CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH):
            prctl(PR_CAPBSET_DROP, capability)


@contextlib.contextmanager
def obeying_modes() -> Iterator[None]:
    """Nor may this thread, while this lasts, and what is started meanwhile."""
    header = (ctypes.c_uint32 * 2)(_VERSION_3, 0)
    sets = (ctypes.c_uint32 * 6)()  # effective, permitted, inheritable: the lower half of each, then the upper
    libc = ctypes.CDLL(None, use_errno=True)
    libc.capget(header, sets)
    before = sets[0]
    sets[0] = before & ~(1 << CAP_DAC_OVERRIDE | 1 << CAP_DAC_READ_SEARCH)
    if libc.capset(header, sets):
        raise OSError(ctypes.get_errno(), "capset")
    bits = libc.prctl(PR_GET_SECUREBITS)
    libc.prctl(PR_SET_SECUREBITS, bits | NOROOT | NO_SETUID_FIXUP)
    try:
        yield
    finally:
        libc.prctl(PR_SET_SECUREBITS, bits)
        sets[0] = before
        libc.capset(header, sets)
