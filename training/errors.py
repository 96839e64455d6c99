"""The errors that end a training run with a plain message."""

from __future__ import annotations

from typing import ClassVar


class TrainingError(Exception):
    """The run cannot go on; the message names the place and the remedy."""

    exit_code: ClassVar[int] = 1


class UsageError(TrainingError):
    """An option, `TF_CONFIG` or a path given by the user is wrong. No training step was made."""

    exit_code = 2
