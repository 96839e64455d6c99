"""Signals to the launcher are events among those of the hosts."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator

from launcher.hosts import events
from launcher.hosts.one_host import Inbox

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextlib.contextmanager
def signals_into(inbox: Inbox) -> Iterator[None]:
    """While this lasts, a signal that ends programs becomes an event, and Ctrl-Z does nothing.

    A suspended launcher would send its agents no sign of life, and they would end the workers with the lease.
    """

    def interrupt(number: int, _frame: object) -> None:
        inbox.put(events.Interrupted(number))

    # nohup: a hangup that the user wants ignored stays so. Ctrl-C is heard even where a shell's `&` had it ignored.
    heard = [each for each in SIGNALS if each != signal.SIGHUP or signal.getsignal(each) is not signal.SIG_IGN]
    before = {number: signal.signal(number, interrupt) for number in heard}
    before[signal.SIGTSTP] = signal.signal(signal.SIGTSTP, signal.SIG_IGN)
    try:
        yield
    finally:
        for number, action in before.items():
            signal.signal(number, action)
