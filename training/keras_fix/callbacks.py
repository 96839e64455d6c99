"""Callbacks: all workers stop together, and logs of batches are reduced only where somebody reads them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .agreement import Unison, any_worker, everyones, unison_of, unisons
from .files import kind_of, path_of, redirected, undo
from .stock import Announce, Callback, Function, Model, is_multi_worker


def in_unison(original: Function, announce: Announce) -> Function:
    def run(self: Model, *args: Any, **kwargs: Any) -> Any:
        if not is_multi_worker(self.distribute_strategy):
            return original(self, *args, **kwargs)
        announce()
        outer = unisons.get(self)
        if outer is not None and "_use_cached_eval_dataset" in kwargs:  # the validation of a `fit`
            return original(self, *args, **kwargs)
        unison = unisons[self] = Unison(self.distribute_strategy)
        try:
            return original(self, *args, **kwargs)
        finally:
            for redirection in unison.redirections:
                undo(redirection)
            if outer is None:
                del unisons[self]
            else:
                unisons[self] = outer

    return run


def agree_on_callbacks(original: Function, _: Announce) -> Function:
    """Before any callback is told of its model: TensorBoard writes to its directory at once."""

    def __init__(self: Any, callbacks: Any = None, *args: Any, **kwargs: Any) -> None:  # noqa: N807
        model = kwargs.get("model")
        unison = None if model is None else unisons.get(model)
        if unison is not None and not unison.agreed:
            shows = bool(kwargs.get("add_progbar")) and kwargs.get("verbose") in (1, "auto")
            agree(unison, flat(callbacks), shows)
        original(self, callbacks, *args, **kwargs)

    return __init__


def agree_if_not_yet(original: Function, _: Announce) -> Function:
    """A `CallbackList` of the user's own was made before `fit`."""

    def on_train_begin(self: Any, logs: Any = None) -> None:
        unison = unison_of(self)
        if unison is not None and not unison.agreed:
            agree(unison, self.callbacks, shows=False)
        original(self, logs)

    return on_train_begin


def agree(unison: Unison, callbacks: Sequence[Callback], shows: bool) -> None:
    """Learn what the callbacks of all workers need, and keep out of the chief's files."""
    own = {
        "reads": shows or any(reads_batches(callback, "train") for callback in callbacks),
        "reads_test": shows or any(reads_batches(callback, "test") for callback in callbacks),
        "looks": any(looks_at_batches(callback) for callback in callbacks),
        "paths": [path_of(callback) for callback in callbacks],
        "backups": [path_of(callback) for callback in callbacks if kind_of(callback) == "BackupAndRestore"],
    }
    index, everyone = everyones(unison.strategy, own)
    unison.agreed = True
    unison.reads_batches = any(each["reads"] for each in everyone)
    unison.reads_test_batches = any(each["reads_test"] for each in everyone)
    unison.looks_at_batches = any(each["looks"] for each in everyone)
    unison.shares_backup = bool(own["backups"]) and all(each["backups"] == own["backups"] for each in everyone)
    if index > 0:
        taken = {path for path in everyone[0]["paths"] if path is not None}
        for callback in callbacks:
            if path_of(callback) in taken:
                unison.redirections.append(redirected(callback))


def reads_batches(callback: Callback, phase: str) -> bool:
    """Whether it looks into the logs of batches; of Keras's own callbacks we know."""
    kind = kind_of(callback)
    if type(callback).__name__ == kind:
        if kind in ("ModelCheckpoint", "BackupAndRestore"):
            return phase == "train" and callback.save_freq != "epoch"
        if kind == "TensorBoard":
            return bool(callback.update_freq != "epoch")
        if kind == "ProgbarLogger":
            return True
    hooks = ("on_batch_end", f"on_{phase}_batch_end")
    return not all(getattr(getattr(callback, hook), "_is_default", False) for hook in hooks)


def looks_at_batches(callback: Callback) -> bool:
    """Whether it may stop the training, or look at the weights, between two batches."""
    return kind_of(callback) not in ("TensorBoard", "ProgbarLogger") and reads_batches(callback, "train")


def flat(callbacks: Any) -> list[Callback]:
    if isinstance(callbacks, (list, tuple)):
        return [each for one in callbacks for each in flat(one)]
    return [] if callbacks is None else [callbacks]


def stop_at_a_batch(original: Function, _: Announce) -> Function:
    def on_train_batch_end(self: Any, batch: int, logs: Any = None) -> None:
        original(self, batch, logs)
        unison = unison_of(self)
        if unison is not None and unison.looks_at_batches:
            self.model.stop_training = any_worker(unison.strategy, self.model.stop_training)
        elif unison is not None and self.model.stop_training:
            unison.stop_later, self.model.stop_training = True, False

    return on_train_batch_end


def stop_at_an_epoch(original: Function, _: Announce) -> Function:
    def on_epoch_end(self: Any, epoch: int, logs: Any = None) -> None:
        original(self, epoch, logs)
        unison = unison_of(self)
        if unison is not None:
            stop = self.model.stop_training or unison.stop_later
            self.model.stop_training = any_worker(unison.strategy, stop)

    return on_epoch_end


def begin_of_a_test(original: Function, _: Announce) -> Function:
    def on_test_begin(self: Any, logs: Any = None) -> None:
        unison = unison_of(self)
        if unison is not None:
            unison.testing = True
            if not unison.agreed:
                agree(unison, self.callbacks, shows=False)
        original(self, logs)

    return on_test_begin


def end_of_a_test(original: Function, _: Announce) -> Function:
    def on_test_end(self: Any, logs: Any = None) -> None:
        unison = unison_of(self)
        if unison is not None:
            unison.testing = False
        original(self, logs)

    return on_test_end
