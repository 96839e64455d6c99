"""Callbacks: all workers stop together, and logs of batches are reduced only where somebody reads them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .agreement import Unison, any_worker, everyones, unison_of, unisons
from .files import kind_of, path_of, redirected, undo
from .log import announce
from .strategy import is_multi_worker
from .untyped import Callback, CallbackList, Function, Model


def in_unison(original: Function) -> Function:
    """`fit` and `evaluate`: what the workers agree on holds from the beginning of the outermost call to its end."""

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


def agree_on_callbacks(original: Function) -> Function:
    """Done before any callback is told of its model: TensorBoard then writes to its directory at once."""

    def __init__(self: Any, callbacks: Any = None, *args: Any, **kwargs: Any) -> None:  # noqa: N807
        model = kwargs.get("model")
        unison = None if model is None else unisons.get(model)
        if unison is not None and not unison.agreed:
            shows = bool(kwargs.get("add_progbar")) and kwargs.get("verbose") in (1, "auto")
            agree(unison, flat(callbacks), shows)
        original(self, callbacks, *args, **kwargs)

    return __init__


def before(hear: Callable[[Unison, CallbackList], None]) -> Callable[[Function], Function]:
    """A replacement for a hook of `CallbackList`: `hear` comes first where the workers train in unison."""

    def replacement(original: Function) -> Function:
        def hook(self: CallbackList, *args: Any, **kwargs: Any) -> None:
            unison = unison_of(self)
            if unison is not None:
                hear(unison, self)
            original(self, *args, **kwargs)

        return hook

    return replacement


def after(hear: Callable[[Unison, CallbackList], None]) -> Callable[[Function], Function]:
    """The same, where `hear` comes last."""

    def replacement(original: Function) -> Function:
        def hook(self: CallbackList, *args: Any, **kwargs: Any) -> None:
            original(self, *args, **kwargs)
            unison = unison_of(self)
            if unison is not None:
                hear(unison, self)

        return hook

    return replacement


def agree_if_not_yet(unison: Unison, container: CallbackList) -> None:
    """A user's own `CallbackList` was made before `fit`, when there was nobody to agree with."""
    if not unison.agreed:
        agree(unison, container.callbacks, shows=False)


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
    """Whether it may read the logs of batches; Keras's own callbacks have hooks that do not always."""
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


def stop_at_a_batch(unison: Unison, container: CallbackList) -> None:
    """All workers stop after the same batch; where nobody asks for that between batches, after the same epoch."""
    model = container.model
    if unison.looks_at_batches:
        model.stop_training = any_worker(unison.strategy, model.stop_training)
    elif model.stop_training:
        unison.stop_later, model.stop_training = True, False


def stop_at_an_epoch(unison: Unison, container: CallbackList) -> None:
    stop = container.model.stop_training or unison.stop_later
    container.model.stop_training = any_worker(unison.strategy, stop)


def begin_test(unison: Unison, container: CallbackList) -> None:
    unison.testing = True
    agree_if_not_yet(unison, container)


def end_test(unison: Unison, _: CallbackList) -> None:
    unison.testing = False
