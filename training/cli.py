"""The options of `python -m training`; errors become plain messages and exit codes."""

from __future__ import annotations

import os
import sys
import traceback
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import Any, NoReturn

import click

from training.config import MAX_EPOCHS, TrainingConfig
from training.errors import TrainingError, UsageError
from training.interrupt import EXIT_INTERRUPTED, leave, was_interrupted, watch_for_interrupts
from training.models import MODELS
from training.output import default_output_dir, make_output_dir
from training.tf_config import read_place

OLDEST_KERAS = (3, 12)
"""As in `pyproject.toml`."""


@click.command(context_settings={"help_option_names": ["-h", "--help"], "show_default": True, "max_content_width": 100})
@click.option("--model", type=click.Choice(sorted(MODELS)), default="digits_cnn", help="What to train.")
@click.option("--epochs", type=click.IntRange(1, MAX_EPOCHS), default=20, help="Epochs in all, resumed ones included.")
@click.option("--batch-size", type=int, help="Examples per replica and step.  [default: 24]")
@click.option("--global-batch-size", type=int, help="Examples of all replicas per step, instead of --batch-size.")
@click.option("--learning-rate", type=float, default=0.05, help="At the first step; falls to zero until the last.")
@click.option("--seed", type=int, default=0, help="Decides the split, the order of the examples and the first weights.")
@click.option(
    "--output-dir",
    type=click.Path(path_type=Path),
    help="Where checkpoints, TensorBoard logs and exports go; a run found there is resumed.  "
    "[default: $LAUNCH_OUTPUT_DIR, else ./output]",
)
@click.option("--checkpoint-every", type=int, default=1, help="Epochs between two checkpoints.")
@click.option("--keep-checkpoints", type=int, default=3, help="How many of the newest checkpoints to keep.")
def command(output_dir: Path | None, **options: Any) -> None:
    """Train an image classifier on handwritten digits.

    One process trains alone; with TF_CONFIG set, as `launch` does, all workers train one model together.
    """
    config = TrainingConfig(output_dir=output_dir or default_output_dir(os.environ), **options)
    place = read_place(os.environ)
    check_keras()
    if place.is_chief:
        make_output_dir(config.output_dir)
    # TensorFlow takes seconds to import: --help and a wrong option must not wait for it.
    from training.fit import train

    # AutoGraph imports files that it makes in the temporary directory, and would leave their bytecode there.
    sys.dont_write_bytecode = True
    train(config, place)


def check_keras() -> None:
    """Tell of a Keras that is too old before TensorFlow is imported; where there is none, its import tells.

    Raises:
        UsageError: it is older than what this program is written for.
    """
    with suppress(metadata.PackageNotFoundError):
        found = metadata.version("keras")
        if tuple(map(int, found.split(".")[:2])) < OLDEST_KERAS:
            oldest = "{}.{}".format(*OLDEST_KERAS)
            raise UsageError(
                f"this program needs Keras {oldest} or newer, and {sys.executable} has Keras {found}: "
                f"{sys.executable} -m pip install 'keras>={oldest}', or name another Python"
            )


def main() -> NoReturn:
    """Run the command; the exit code is 0, 1 (training failed), 2 (usage) or 130 (interrupted)."""
    alone = "LAUNCH_RUN_ID" not in os.environ  # `launch` says itself how its runs are gone on with
    watch_for_interrupts("interrupted" + ("; the same command goes on from the newest checkpoint" if alone else ""))
    try:
        command(prog_name="python -m training", standalone_mode=False)
    except BaseException as error:
        leave(EXIT_INTERRUPTED if was_interrupted() else explain(error))
    leave(0)


def explain(error: BaseException) -> int:
    """Say on stderr what went wrong; the exit code for it. What is no mistake of the user gets its traceback."""
    if isinstance(error, click.ClickException):
        error.show()
        return error.exit_code
    if isinstance(error, TrainingError):
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    traceback.print_exception(error)
    return TrainingError.exit_code
