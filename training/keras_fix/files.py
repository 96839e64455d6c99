"""Files: no other worker writes what the chief writes, and what the chief restores is restored everywhere."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import tensorflow as tf

from .agreement import Redirection, everyones, unison_of
from .strategy import is_multi_worker
from .sums import assign_here, sums
from .untyped import Callback, Function, Model, Strategy

WRITERS = {
    "ModelCheckpoint": ("filepath",),
    "CSVLogger": ("filename",),
    "TensorBoard": ("log_dir",),
    "BackupAndRestore": (
        "backup_dir",
        "_weights_path",
        "_training_metadata_path",
        "_prev_weights_path",
        "_prev_training_metadata_path",
    ),
}
"""Callbacks of Keras that write files: the attributes that say where; the first one is what the user named."""


def kind_of(callback: Callback) -> str:
    """The name of Keras's class that it is, or is derived from."""
    names = (kind.__name__ for kind in type(callback).__mro__ if kind.__module__.startswith("keras.src.callbacks."))
    return next(names, "")


def path_of(callback: Callback) -> str | None:
    """Where it writes; None: it does not, as far as we know."""
    attributes = WRITERS.get(kind_of(callback))
    path = getattr(callback, attributes[0], None) if attributes else None
    return os.fspath(path) if isinstance(path, (str, os.PathLike)) else None


def redirected(callback: Callback) -> Redirection:
    """Have a callback write into a temporary directory: all workers take part in a save, but one file is enough."""
    first, *_ = attributes = WRITERS[kind_of(callback)]
    scratch = Path(tempfile.mkdtemp(prefix="keras-worker-"))
    before = {name: getattr(callback, name) for name in attributes if hasattr(callback, name)}
    named = os.fspath(before[first])
    for name, path in before.items():
        setattr(callback, name, os.fspath(path).replace(named, str(scratch / Path(named).name), 1))
    return Redirection(callback, scratch, before)


def undo(redirection: Redirection) -> None:
    for name, value in redirection.before.items():
        setattr(redirection.callback, name, value)
    shutil.rmtree(redirection.scratch, ignore_errors=True)


def redirection_of(callback: Callback) -> Redirection | None:
    unison = unison_of(callback)
    redirections = [] if unison is None else unison.redirections
    return next((each for each in redirections if each.callback is callback), None)


def save_for_nothing(original: Function) -> Function:
    """A worker that is not the chief takes part in a save, and removes what it wrote at once."""

    def _save_model(self: Callback, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        redirection = redirection_of(self)
        if redirection is not None:
            shutil.rmtree(redirection.scratch)
            redirection.scratch.mkdir()

    return _save_model


def restore_everywhere(original: Function) -> Function:
    """Only the chief has the backup; all workers are given its weights and its epoch."""

    def on_train_begin(self: Callback, logs: Any = None) -> None:
        unison = unison_of(self)
        if unison is None or not unison.shares_backup:
            original(self, logs)
            return
        is_chief = redirection_of(self) is None
        build_optimizer(self.model)
        found = is_chief and Path(self._weights_path).exists()
        if is_chief:
            original(self, logs)
        _, (chief, *_) = everyones(unison.strategy, [found, self.model._initial_epoch])
        if chief[0]:
            broadcast(unison.strategy, [*self.model.variables, *self.model.optimizer.variables])
            self.model._initial_epoch = chief[1]

    return on_train_begin


def build_optimizer(model: Model) -> None:
    """Make its variables on all workers; until Keras 3.4 its first step would."""
    if model.built and model.optimizer is not None and not model.optimizer.built:
        with model.distribute_strategy.scope():
            model.optimizer.build(model.trainable_variables)


def broadcast(strategy: Strategy, variables: Iterable[Any]) -> None:
    """Give every replica the chief's values."""
    unique = {id(variable): variable for variable in variables if variable.value.dtype != tf.string}.values()
    mirrored = [variable for variable in unique if getattr(variable, "synchronization", "auto") != "on_read"]

    def in_replica() -> None:
        context = tf.distribute.get_replica_context()
        is_first = tf.equal(context.replica_id_in_sync_group, 0)
        own = [tf.convert_to_tensor(variable.value) for variable in mirrored]
        given = [tf.where(is_first, value, tf.zeros_like(value)) for value in own]
        for variable, value in zip(mirrored, sums(given)):
            assign_here(variable.value, value)

    tf.function(lambda: strategy.run(in_replica), autograph=False)()


def written_whole(original: Function) -> Function:
    """Workers that share a disk may save the same file: each writes its own, and the last one stays."""

    def save(model: Model, filepath: Any, *args: Any, **kwargs: Any) -> None:
        target = one_file(filepath)
        several = any(args) or bool(kwargs.get("max_shard_size"))
        if target is None or several or not is_multi_worker(getattr(model, "distribute_strategy", None)):
            original(model, filepath, *args, **kwargs)
            return
        own = target.with_name(f".{os.getpid()}-{target.name}")
        try:
            original(model, str(own), *args, **kwargs)
            own.replace(target)
        finally:
            own.unlink(missing_ok=True)

    return save


def one_file(filepath: Any) -> Path | None:
    """The local file that is to be written; None: it is a directory, several files or elsewhere, or has no place."""
    if not isinstance(filepath, (str, os.PathLike)) or "://" in str(filepath):
        return None
    path = Path(filepath)
    return path if path.name.endswith((".keras", ".weights.h5")) and path.parent.is_dir() else None
