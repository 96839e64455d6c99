"""How a run ended, as a value."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from launcher.failure import Failure


class RunResult(NamedTuple):
    """How a run ended, and where what it left is."""

    exit_code: int
    directory: Path
    attempts: int
    failure: Failure | None = None

    def as_record(self) -> dict[str, Any]:
        """For JSON."""
        cause = self.failure
        return {
            "exit_code": self.exit_code,
            "run_directory": str(self.directory),
            "attempts": self.attempts,
            "root_cause": cause
            and {
                "kind": cause.kind.name.lower(),
                "host": cause.host,
                "task": cause.task and cause.task.slug,
                "exit_code": cause.exit_code,
                "signal": cause.signal,
                "summary": cause.summary,
                "location": cause.location,
                "remedy": cause.remedy,
            },
        }
