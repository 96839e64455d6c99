"""Whether work on a text grows faster than the text.

Time is that of this thread's processor, and what counts is how it grows with the text; what takes far too long is
broken off.
"""

from __future__ import annotations

import gc
import signal
import time
from collections.abc import Callable
from functools import partial
from typing import NamedTuple


class Sizes(NamedTuple):
    """Of two texts that are compared."""

    short: int
    """Characters."""
    long: int
    fast: float
    """Seconds that the short one may take without another look."""
    slow: float
    """Seconds that linear work on it never takes, however slow the machine."""
    far_too_long: float
    """Seconds after which work is broken off, however long the text: no linear work comes near them."""


OF_A_PATTERN = Sizes(8 << 10, 32 << 10, 0.0005, 0.04, 0.2)
"""The longer one is what is read of a log at its end; linear patterns take thousandths of a second."""
OF_A_READER = Sizes(2 << 10, 8 << 10, 0.01, 1.0, 1.5)


TOO_LONG = float("inf")
"""Seconds of what was broken off."""


class TooSlowError(Exception):
    """Broken off."""


def seconds(run: Callable[[], object], most: float) -> float:
    """Of the processor, for what runs in this thread; infinite: it was broken off."""

    def break_off(*_: object) -> None:
        raise TooSlowError

    before = signal.signal(signal.SIGVTALRM, break_off)
    gc.disable()
    began = time.thread_time()
    try:
        signal.setitimer(signal.ITIMER_VIRTUAL, most)
        run()
    except TooSlowError:
        return TOO_LONG
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        gc.enable()
        signal.signal(signal.SIGVTALRM, before)
    return time.thread_time() - began


def grows_too_fast(run: Callable[[int], object], sizes: Sizes) -> bool:
    """Whether work on a text of so many characters grows faster than the text, by more than chance explains."""
    for size in (sizes.short >> 5, sizes.short >> 3, sizes.short):  # a cube, or worse, is seen while it is small
        first = seconds(partial(run, size), sizes.far_too_long)
        if first == TOO_LONG or (first >= sizes.slow and seconds(partial(run, size), sizes.slow) == TOO_LONG):
            return True
    if first < sizes.fast:
        return False
    times_longer = sizes.long // sizes.short
    return all(grows(run, sizes.short * times, times_longer, sizes.far_too_long) for times in (1, times_longer))


def grows(run: Callable[[int], object], size: int, times_longer: int, far_too_long: float) -> bool:
    """Whether a longer text takes more than its share, halfway to a square. Once alone, it may be memory's doing."""
    short = seconds(partial(run, size), far_too_long)
    if short == TOO_LONG:
        return True
    short = min(short, *(seconds(partial(run, size), far_too_long) for _ in range(2)))
    most = min(times_longer**1.5 * short, far_too_long)
    return all(seconds(partial(run, size * times_longer), most) > most for _ in range(3))
