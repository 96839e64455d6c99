"""Ctrl-C during training: one line and exit code 130, whichever thread is the first to learn of it."""

import subprocess
import sys

START = """
import signal, threading
from training.interrupt import EXIT_INTERRUPTED, leave, was_interrupted, watch_for_interrupts
watch_for_interrupts("stopped by hand")
"""
MAIN_THREAD_IS_FIRST = """
import sys
sys.setswitchinterval(10)
try:
    signal.raise_signal(signal.SIGINT)
except KeyboardInterrupt:
    leave(EXIT_INTERRUPTED if was_interrupted() else 1)
"""
MAIN_THREAD_GOES_ON = """
while True:
    try:
        signal.raise_signal(signal.SIGINT)
        threading.Event().wait()
    except KeyboardInterrupt:
        pass
"""
TWICE = """
try:
    signal.raise_signal(signal.SIGINT)
except KeyboardInterrupt:
    signal.raise_signal(signal.SIGINT)
    leave(EXIT_INTERRUPTED if was_interrupted() else 1)
"""
OTHER_ERROR = """
try:
    raise ValueError
except ValueError:
    leave(EXIT_INTERRUPTED if was_interrupted() else 1)
"""


def ended(program: str) -> tuple[int, str]:
    done = subprocess.run([sys.executable, "-c", START + program], capture_output=True, text=True, timeout=30)
    return done.returncode, done.stderr


def test_a_main_thread_that_is_the_first_to_know_waits_for_the_line() -> None:
    assert ended(MAIN_THREAD_IS_FIRST) == (130, "stopped by hand\n")


def test_a_main_thread_that_does_not_come_back_is_ended() -> None:
    assert ended(MAIN_THREAD_GOES_ON) == (130, "stopped by hand\n")


def test_a_second_ctrl_c_changes_nothing() -> None:
    assert ended(TWICE) == (130, "stopped by hand\n")


def test_another_error_is_no_interrupt() -> None:
    assert ended(OTHER_ERROR) == (1, "")
