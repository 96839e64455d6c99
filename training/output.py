"""The output directory of a run: checkpoints/, tensorboard/ and export/ go below it."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path

from training.errors import UsageError


def default_output_dir(environ: Mapping[str, str]) -> Path:
    """`$LAUNCH_OUTPUT_DIR` under the launcher, else `output` in the current directory."""
    return Path(environ.get("LAUNCH_OUTPUT_DIR") or "output")


def make_output_dir(directory: Path) -> None:
    """Make the output directory and try to write to it, before minutes of work depend on it.

    Raises:
        UsageError: it cannot be made or written to.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=directory):
            pass
    except OSError as error:
        raise UsageError(
            f"the output directory {directory} cannot be written to ({error.strerror}); give another with --output-dir"
        ) from error
