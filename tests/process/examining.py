"""A `launch doctor` under way, and what a test asks of it."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from launching import PATIENCE


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
