"""A `launch doctor` under way, and what a test asks of it."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from support.launching import PATIENCE


@contextlib.contextmanager
def doctors(
    place: Path, environment: Mapping[str, str], login: Sequence[str] = ()
) -> Iterator[Callable[..., Examined]]:
    """What starts `launch doctor ARGUMENTS` in a directory, behind the words `login`."""
    started: list[Examined] = []

    def start(*arguments: str, env: Mapping[str, str] | None = None) -> Examined:
        argv = [*login, sys.executable, "-m", "launcher", "doctor", *arguments]
        pipes: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        own = {**environment, **(env or {})}
        started.append(Examined(subprocess.Popen(argv, env=own, cwd=place, text=True, **pipes)))
        return started[-1]

    yield start
    for each in started:
        each.process.kill()
        each.process.communicate()


@dataclass
class Examined:
    """A doctor under way, and what it found."""

    process: subprocess.Popen[str]

    @cached_property
    def _said(self) -> tuple[str, str]:
        return self.process.communicate(timeout=PATIENCE)

    @property
    def exit_code(self) -> int:
        """Once it has ended."""
        assert self._said is not None
        return self.process.returncode

    @property
    def text(self) -> str:
        """All that it wrote to stdout."""
        return self._said[0]

    @cached_property
    def record(self) -> dict[str, Any]:
        """What `--json` prints."""
        assert self._said[0], self._said[1]
        record: dict[str, Any] = json.loads(self._said[0])
        assert record["exit_code"] == self.exit_code
        return record

    def found(self, check: str) -> list[dict[str, Any]]:
        """Its findings of one kind."""
        return [finding for finding in self.record["findings"] if finding["check"] == check]

    def only(self, check: str) -> dict[str, Any]:
        """The one finding of that kind."""
        (finding,) = self.found(check)
        return finding

    def errors(self) -> set[tuple[str, tuple[str, ...]]]:
        """Kind and hosts of each error."""
        return {
            (each["check"], tuple(each["hosts"])) for each in self.record["findings"] if each["severity"] == "error"
        }

    @property
    def stderr(self) -> str:
        """All that it wrote there."""
        return self._said[1]
