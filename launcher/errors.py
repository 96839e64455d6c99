"""The errors that end a launch, each with the exit code that names its kind."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar, NamedTuple

EXIT_DONE = 0
EXIT_WORKERS_FAILED = 1
EXIT_USAGE = 2
EXIT_HOST = 3


class LaunchError(Exception):
    """An error for the user; the message names the place and the remedy."""

    exit_code: ClassVar[int] = EXIT_WORKERS_FAILED


class UsageError(LaunchError):
    """The command line, the cluster file or a path given by the user is wrong. Nothing was started."""

    exit_code = EXIT_USAGE


class Mistake(NamedTuple):
    """One thing that is wrong in a file, and where: lines and columns count from 1, line 0 is the file as a whole."""

    line: int
    column: int
    message: str
    """What was found, what is allowed, what to do."""


class ClusterFileError(UsageError):
    """The cluster file cannot be used. Its text has a line for every mistake, in the order of the file."""

    def __init__(self, file: str, mistakes: Iterable[Mistake]) -> None:
        self.file = file
        self.mistakes = tuple(sorted(mistakes, key=lambda mistake: (mistake.line, mistake.column)))
        super().__init__("\n".join(f"{self._place(mistake)}: {mistake.message}" for mistake in self.mistakes))

    def _place(self, mistake: Mistake) -> str:
        return f"{self.file}:{mistake.line}:{mistake.column}" if mistake.line else self.file


class HostError(LaunchError):
    """A host, or several, could not be reached, or could not do what the run needs of it."""

    exit_code = EXIT_HOST

    def __init__(self, *complaints: str) -> None:
        """`complaints`: what is wrong, host by host, and what to do about it."""
        self.complaints = complaints
        super().__init__("\n".join(complaints))
