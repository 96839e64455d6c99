"""A training run with `Model.fit`, told from top to bottom."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import keras
import numpy as np

from training.callbacks import EpochLog, SaveCheckpoints
from training.checkpoint import Checkpoints
from training.config import TrainingConfig
from training.data.digits import Examples, load_digits
from training.data.order import Indices, run_steps, split, steps_per_epoch, validation_bounds
from training.data.pipeline import training_dataset, validation_dataset
from training.export import export_model
from training.keras_fix import progress
from training.keras_fix.parting import wait_for_all
from training.models import MODELS
from training.strategy import build_strategy
from training.tf_config import Place

WEIGHT_DECAY = 0.01


@dataclass(frozen=True, slots=True)
class Data:
    """The examples of a run, and how they are shared out."""

    training: Examples
    held_out: Examples
    replicas: int
    global_batch: int
    steps: int
    """Training steps an epoch."""
    validation_bounds: Indices


def train(config: TrainingConfig, place: Place) -> None:
    """Train, or go on training, the model that `config` describes; every worker of the cluster calls this.

    Raises:
        UsageError: the configuration does not fit the cluster, the data or the checkpoints found.
        TrainingError: a checkpoint, an export or the loss went wrong.
    """
    say = print_line if place.is_chief else be_silent
    strategy = build_strategy(place)
    data = share_out(config, strategy.num_replicas_in_sync)
    model = compiled_model(config, strategy, data.steps * config.epochs)
    checkpoints = Checkpoints(
        config.output_dir / "checkpoints", model, config.trajectory(data.replicas), place, config.keep_checkpoints
    )
    done = checkpoints.restore(strategy)
    say(opening(config, place, data, done))
    if done < config.epochs:
        fit(config, strategy, model, data, done, callbacks(config, place, checkpoints))
    if place.is_chief:
        outputs = export_model(model, config.output_dir / "export", data.held_out.images)
        say(closing(config.output_dir, outputs, data.held_out))
    wait_for_all(strategy)


def share_out(config: TrainingConfig, replicas: int) -> Data:
    """Split the examples, and compute batch size and steps for `replicas` in sync."""
    examples = load_digits()
    training, held_out = (examples.take(part) for part in split(len(examples.labels), config.seed))
    global_batch = config.replica_batch_size(replicas) * replicas
    return Data(
        training=training,
        held_out=held_out,
        replicas=replicas,
        global_batch=global_batch,
        steps=steps_per_epoch(len(training.labels), global_batch),
        validation_bounds=validation_bounds(len(held_out.labels), replicas, global_batch),
    )


def compiled_model(config: TrainingConfig, strategy: Any, steps: int) -> Any:
    """The model with its loss and optimizer, its variables mirrored by the strategy and set by the seed.

    Plain momentum rather than Adam: Adam divides by the size of the gradient, and so
    blows the rounding errors of tiny gradients up to full steps. The learning rate falls to zero over `steps`.
    """
    keras.utils.set_random_seed(config.seed)
    with strategy.scope():
        model = MODELS[config.model]()
        falling = keras.optimizers.schedules.CosineDecay(config.learning_rate, steps)
        model.compile(
            optimizer=keras.optimizers.SGD(falling, momentum=0.9, nesterov=True, weight_decay=WEIGHT_DECAY),
            loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
            metrics=["accuracy"],
        )
        model.optimizer.build(model.trainable_variables)
    return model


def fit(config: TrainingConfig, strategy: Any, model: Any, data: Data, done: int, callbacks: list[Any]) -> None:
    """Train from epoch `done` to the last one.

    Both datasets are endless: with `steps_per_epoch` and `validation_steps` each has one iterator for the whole run.
    """
    progress.enable()
    steps = run_steps(len(data.training.labels), config.seed, range(done, config.epochs), data.global_batch)
    model.fit(
        training_dataset(strategy, data.training, steps),
        validation_data=validation_dataset(strategy, data.held_out, data.validation_bounds),
        validation_steps=(len(data.validation_bounds) - 1) // data.replicas,
        epochs=config.epochs,
        initial_epoch=done,
        steps_per_epoch=data.steps,
        callbacks=callbacks,
        shuffle=False,
        verbose=0,
    )


def callbacks(config: TrainingConfig, place: Place, checkpoints: Checkpoints) -> list[Any]:
    """What every worker does between the steps, and what only the chief does."""
    every_worker: list[Any] = [SaveCheckpoints(checkpoints.save, config.checkpoint_every, config.epochs)]
    if not place.is_chief:
        return every_worker
    tensorboard = keras.callbacks.TensorBoard(config.output_dir / "tensorboard", write_graph=False)
    return [EpochLog(config.epochs, print_line), tensorboard, *every_worker]


def opening(config: TrainingConfig, place: Place, data: Data, done: int) -> str:
    """The chief's first line: what is about to happen, and where it is written."""
    each = data.global_batch // data.replicas
    return (
        f"{config.model}: {plural(place.workers, 'worker')}, {plural(data.replicas, 'replica')}, "
        f"global batch {data.global_batch} ({each} per replica), {plural(data.steps, 'step')} an epoch; "
        f"output in {config.output_dir.resolve()}" + resumption(config, data, done)
    )


def resumption(config: TrainingConfig, data: Data, done: int) -> str:
    """Say where a resumed run goes on."""
    if not done:
        return ""
    point = f"\nfound a checkpoint after epoch {done} (step {done * data.steps})"
    if done >= config.epochs:
        return f"{point}: nothing left to train with --epochs {config.epochs}; another --output-dir starts anew"
    return f"{point}: going on with epoch {done + 1}"


def closing(output_dir: Path, outputs: Any, held_out: Examples) -> str:
    """The chief's last line: held-out accuracy of the exported model, and where everything is."""
    right = int(np.sum(np.argmax(outputs, axis=1) == held_out.labels))
    total = len(held_out.labels)
    return (
        f"held-out accuracy {right / total:.4f} ({right} of {total}); "
        f"checkpoints/, tensorboard/ and export/ are in {output_dir.resolve()}"
    )


def plural(count: int, noun: str) -> str:
    """`1 worker`, `2 workers`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def print_line(line: str) -> None:
    """Print without delay: a launcher or a pipe may be reading."""
    print(line, flush=True)


def be_silent(line: str) -> None:
    """What a worker that is not the chief says."""
