"""At the end of a run each step is taken, and what fails in one is told."""

from __future__ import annotations

import errno
import os

from launcher.errors import LaunchError
from launcher.run.last_steps import told, whatever_comes


def failing(error: Exception) -> str:
    said: list[str] = []

    def step() -> None:
        raise error

    assert whatever_comes(step, said.append) is None
    (line,) = said
    return line


def test_a_step_that_succeeds_gives_what_it_gives() -> None:
    said: list[str] = []

    assert whatever_comes(lambda: 7, said.append) == 7
    assert said == []


def test_what_the_user_may_put_right_is_told_with_its_place() -> None:
    assert failing(LaunchError("run.json: cannot be written")) == "run.json: cannot be written"
    assert failing(OSError(errno.EACCES, os.strerror(errno.EACCES), "/a/b")) == "/a/b: Permission denied"
    assert failing(OSError(errno.EACCES, os.strerror(errno.EACCES), b"/a/\xff")) == "'/a/\\udcff': Permission denied"


def test_what_nobody_has_thought_of_is_told_with_the_line_that_it_comes_from() -> None:
    line = failing(ZeroDivisionError("division by zero"))

    assert line.startswith("at the end of the run: ZeroDivisionError: division by zero (test_last_steps.py, line ")
    assert "Input/output error (test_last_steps.py, line " in failing(OSError(errno.EIO, os.strerror(errno.EIO)))
    assert told(KeyError("x")) == "at the end of the run: KeyError: 'x'; the run itself is not affected"


def test_nobody_to_tell_is_no_matter() -> None:
    def step() -> None:
        raise OSError("the disk")

    def complain(_text: str) -> None:
        raise OSError("the terminal")

    assert whatever_comes(step, complain) is None
