"""How a run ended, as a value."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any, NamedTuple

from launcher.cluster.redaction import in_values
from launcher.run.failure.failure import Failure
from launcher.wording import counted


class RunResult(NamedTuple):
    """How a run ended, and where what it left is."""

    exit_code: int
    directory: Path
    attempts: int
    failure: Failure | None = None
    restarts: int = 0
    """Of the whole gang, and of single workers."""

    @property
    def state(self) -> str:
        """The run's, as in `run.json`."""
        return "stopped" if self.exit_code > 128 else "failed" if self.exit_code else "done"

    def last_line(self, seconds: float) -> str | None:
        """What the user is told of a run that took so long; None: its failure says more."""
        match self.state:
            case "done":
                after = f", after {counted(self.restarts, 'restart')}" if self.restarts else ""
                return f"done in {seconds:.1f} s{after}"
            case "stopped":
                return f"ended by {signal.Signals(self.exit_code - 128).name} after {seconds:.1f} s"
        return None

    def as_record(self) -> dict[str, Any]:
        """For JSON: secrets are redacted."""
        cause = self.failure
        return {
            "exit_code": self.exit_code,
            "run_directory": str(self.directory),
            "attempts": self.attempts,
            "restarts": self.restarts,
            "root_cause": cause
            and in_values(
                {
                    "kind": cause.kind.name.lower(),
                    "host": cause.host or None,
                    "task": cause.task and cause.task.slug,
                    "exit_code": cause.exit_code,
                    "signal": cause.signal,
                    "summary": cause.summary,
                    "location": cause.location,
                    "remedy": cause.remedy,
                }
            ),
        }
