"""Makes Keras 3 work under `MultiWorkerMirroredStrategy`: `fit`, `evaluate`, `predict`, callbacks, optimizers.

Stock Keras 3 stops in its TensorFlow trainer as soon as there are two workers (keras-team/keras#20585), and where it
would go on, its callbacks know nothing of workers. Replaced are only the functions named in `_parts`, each only where
its fault is found in its source, and each does what it always did under any other strategy, and under none:

* **Steps.** No number is reduced in a step but what the mathematics needs, the gradients. `steps_per_execution` traces
  the step into the loop itself: a collective inside a function that is called from a loop cannot be given its key.
* **Data.** Workers whose shards have the same known length need not ask each other before each batch whether anyone
  has one left. A worker that runs out alone raises `InputEndedError` instead of leaving its peers to wait for ever.
* **Metrics.** The state of all metrics travels in one all-reduce when it is read: at the end of an epoch or an
  evaluation, and after each execution if some worker has a callback that reads the logs of batches. What is read is
  exact: the metric of all examples, not the mean of the workers' metrics. The statistics that each replica moves on its
  own (BatchNormalization) are averaged on the same way.
* **Callbacks.** All workers stop at the same step when one sets `stop_training`. What the chief writes, no one else
  writes: the others are given a temporary directory. `BackupAndRestore` restores the chief's backup everywhere.
* **Optimizers.** All replicas skip a step with infinite gradients alike; accumulating gradients and overwriting
  variables by their averages branch outside of the replicas, where TensorFlow allows a collective in a branch.
* **Losses.** A replica's loss is its share of the mean over the global batch, as Keras 3.8 and newer have it.

Served are Keras 3.3 to 3.15 on TensorFlow 2.16 to 2.21. `_parts` and `_older_parts` say of each function which versions
need it replaced; what only older versions need is in the section "older versions".

This file stands alone: it needs Keras and TensorFlow, nothing else.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import itertools
import json
import os
import shutil
import sys
import tempfile
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

PREFIX = "tf-launch:"
MARK = "_multiworker_fix"
TRAINER = "keras.src.backend.tensorflow.trainer"
TF_OPTIMIZER = "keras.src.backend.tensorflow.optimizer"
CORE = "keras.src.backend.tensorflow.core"
LOSS = "keras.src.losses.loss"
SAVING = "keras.src.saving.saving_lib"

Minor = tuple[int, int]
"""Major and minor number of a version."""
KERAS_SERVED: tuple[Minor, Minor] = (3, 3), (3, 15)
TENSORFLOW_SERVED: tuple[Minor, Minor] = (2, 16), (2, 21)
"""The oldest and the newest version that was run. A newer Keras is served where its functions are the known ones."""

INFINITE = -1
UNKNOWN = -2
"""As in `tf.data.experimental.cardinality`."""
EQUAL_SHARDS = "_multiworker_equal_shards"
"""An attribute of a distributed dataset: how many steps each worker has data for, the same for all."""

# Keras and TensorFlow carry no types: these names say what is meant.
Function = Callable[..., Any]
Announce = Callable[[], None]
Model = Any
Strategy = Any
Data = Any  # a nested structure of tensors or of values per replica
Callback = Any


class InputEndedError(RuntimeError):
    """This worker's input ended before its peers', who wait for its gradients now."""


class Part(NamedTuple):
    """A function of Keras that may have a fault."""

    area: str
    owner: Any
    name: str
    replacement: Callable[[Function, Announce], Function]
    called_with: str
    """Its first parameters in the versions that are known."""
    signs: tuple[str, ...]
    """Source text (without blanks) that shows the fault."""
    since: Minor = KERAS_SERVED[0]
    until: Minor | None = None
    """The first and the last version of Keras that has the fault in this function."""
    stands_alone: bool = False
    """Whether it may be replaced without the others. Those that do not stand alone count on each other."""

    @property
    def title(self) -> str:
        """As in Keras's source."""
        return f"{self.owner.__name__.rpartition('.')[2]}.{self.name}"

    @property
    def is_faulty(self) -> bool:
        """Whether the fault is there.

        Raises:
            TypeError: the function is not called as it was in the versions that are known.
        """
        function = getattr(self.owner, self.name)
        expected, found = self.called_with.split(), list(inspect.signature(function).parameters)
        if found[: len(expected)] != expected:
            raise TypeError(f"{self.title}({', '.join(found)}) where ({', '.join(expected)}) was expected")
        source = "".join(inspect.getsource(function).split())
        return all(sign in source for sign in self.signs)


def enable() -> str | None:
    """Replace what is broken in the imported Keras 3; calling it again changes nothing.

    One line on stderr names the Keras version and what was replaced as soon as a model is trained, evaluated or
    built under that strategy. A Keras 3 that cannot be served is left alone, and a line names the versions that can:
    a program that needs no `fit` under that strategy goes on.

    Returns:
        The names of the functions that are now replaced, with commas; None: Keras was left alone (it is Keras 2, it
        does not run on TensorFlow, it cannot be served, or it has none of the faults).
    """
    keras = importlib.import_module("keras")
    minor = _minor(keras.__version__)
    if minor < (3, 0) or keras.config.backend() != "tensorflow":
        return None
    try:
        _check_versions(minor)
        trainer = importlib.import_module(TRAINER)
        if not hasattr(trainer, MARK):
            setattr(trainer, MARK, _replace_faulty(trainer, keras.__version__))
    except (ImportError, AttributeError, TypeError, OSError) as error:
        _say(_refusal(keras.__version__, str(error)))
        return None
    replaced: str | None = getattr(trainer, MARK)
    return replaced


def _minor(version: str) -> Minor:
    major, minor, *_ = version.split(".")
    return int(major), int(minor)


def _check_versions(keras: Minor) -> None:
    """Raise ImportError for versions that are known not to be served."""
    tensorflow = getattr(sys.modules.get("tensorflow"), "__version__", None)
    if tensorflow is not None and _minor(tensorflow) < TENSORFLOW_SERVED[0]:
        raise ImportError(f"TensorFlow {tensorflow} is too old")
    if keras < KERAS_SERVED[0]:
        raise ImportError("too old: its optimizers do not add up the workers' gradients")
    if keras[0] > KERAS_SERVED[1][0]:
        raise ImportError("too new")


def _refusal(version: str, reason: str) -> str:
    """The line that says that nothing is replaced, and which versions can be served."""
    (first, last), (tf_first, tf_last) = KERAS_SERVED, TENSORFLOW_SERVED
    served = f"Keras {_dotted(first)} to {_dotted(last)} on TensorFlow {_dotted(tf_first)} to {_dotted(tf_last)}"
    command = f"pip install 'keras>={_dotted(first)},<{_dotted((last[0], last[1] + 1))}'"
    return f"Keras {version} cannot be mended for MultiWorkerMirroredStrategy ({reason}): use {served}: {command}"


def _dotted(version: Minor) -> str:
    return f"{version[0]}.{version[1]}"


def _replace_faulty(trainer: ModuleType, version: str) -> str | None:
    parts = _parts_of(trainer, _minor(version))
    found = [part for part in parts if part.is_faulty]
    _check_whole([part for part in parts if not part.stands_alone], found)
    if not found:
        _say(f"Keras {version} has none of the known faults under MultiWorkerMirroredStrategy: left alone")
        return None
    areas = ", ".join(dict.fromkeys(part.area for part in found))
    newer = f" (newer than {_dotted(KERAS_SERVED[1])}, which is the newest that was tried)"
    where = f"Keras {version}{newer if _minor(version) > KERAS_SERVED[1] else ''} under MultiWorkerMirroredStrategy"
    announce = _once(f"{where}: mended {areas} ({len(found)} functions replaced)")
    for part in found:
        original = getattr(part.owner, part.name)
        setattr(part.owner, part.name, functools.wraps(original)(part.replacement(original, announce)))
    return ", ".join(dict.fromkeys(part.title for part in found))


def _check_whole(parts: list[Part], found: list[Part]) -> None:
    """Raise TypeError where only some of these are as they were in the versions that are known."""
    changed = [part for part in parts if part not in found]
    if 0 < len(changed) < len(parts):
        names = ", ".join(part.title for part in changed)
        raise TypeError(f"{names} changed, of {len(parts)} functions that are only replaced together")


def _parts_of(trainer: ModuleType, keras: Minor) -> list[Part]:
    """What may be replaced in a version of Keras."""
    parts = _parts(trainer) + (_older_parts(trainer) if keras <= NEWEST_OF_THE_OLDER else [])
    return [part for part in parts if part.since <= keras and (part.until is None or keras <= part.until)]


def _parts(trainer: ModuleType) -> list[Part]:
    """What is, or was until some version, the same in all versions to this day."""
    model, epochs = trainer.TensorFlowTrainer, trainer.TFEpochIterator
    callbacks = trainer.callbacks_module
    container, backup, checkpoint = callbacks.CallbackList, callbacks.BackupAndRestore, callbacks.ModelCheckpoint
    optimizer = importlib.import_module(TF_OPTIMIZER).TFOptimizer
    scaling = trainer.optimizers_module.LossScaleOptimizer
    variable = importlib.import_module(CORE).Variable
    saving = importlib.import_module(SAVING)
    steps = ("tf.while_loop(", "tf.cond(", "tf.function(", "reduce_per_replica(")
    prediction = ("self.predict_function=predict_function",)
    branches = ("ops.cond(is_update_step,", "ops.cond(should_overwrite_model_vars,")
    whole_batches = ("strategy.reduce(", "maybe_distributed_data_batch")
    alone = functools.partial(Part, stands_alone=True)
    return [
        Part("fit", model, "fit", _in_unison, "self x", ("callbacks_module.CallbackList(",)),
        Part("fit", model, "evaluate", _in_unison, "self x", ("callbacks_module.CallbackList(",)),
        alone(
            "fit", model, "_maybe_symbolic_build", _build_from_spec, "self iterator data_batch", whole_batches, (3, 5)
        ),
        alone("fit", model, "make_predict_function", _built_before_it_predicts, "self force", prediction),
        Part("fit", model, "_make_function", _steps_without_reductions, "self step_function", steps, (3, 7)),
        alone("fit", model, "predict_on_batch", _once_and_not_by_each, "self x", ("self.predict_function([(x,)])",)),
        Part("metrics", model, "_get_metrics_result_or_logs", _read_at_the_end, "self logs", ("get_metrics_result()",)),
        alone(
            "metrics", trainer, "reduce_per_replica", _reduce_over_workers, "values strategy reduction", ("axis=0)",)
        ),
        Part("input", epochs, "__init__", _agree_on_length, "self distribute_strategy", ("_dataset=dataset",)),
        Part(
            "input",
            epochs,
            "_get_iterator",
            _tell_iterators_their_length,
            "self",
            ("self._distributed_dataset",),
            (3, 7),
        ),
        Part("callbacks", container, "__init__", _agree_on_callbacks, "self callbacks", ("self.set_model(model)",)),
        Part("callbacks", container, "on_train_begin", _agree_if_not_yet, "self logs", ("callback.on_train_begin(",)),
        Part(
            "callbacks",
            container,
            "on_train_batch_end",
            _stop_at_a_batch,
            "self batch logs",
            ("_on_train_batch_",),
            (3, 6),
        ),
        Part("callbacks", container, "on_epoch_end", _stop_at_an_epoch, "self epoch logs", ("callback.on_epoch_end(",)),
        Part("callbacks", container, "on_test_begin", _begin_of_a_test, "self logs", ("callback.on_test_begin(",)),
        Part("callbacks", container, "on_test_end", _end_of_a_test, "self logs", ("callback.on_test_end(",)),
        Part("callbacks", backup, "on_train_begin", _restore_everywhere, "self logs", ("self._load_model()",), (3, 7)),
        Part("callbacks", checkpoint, "_save_model", _save_for_nothing, "self epoch", ("self.model.save(",)),
        alone("files", saving, "save_model", _written_whole, "model filepath", ('open(filepath,"wb")',)),
        alone("files", saving, "save_weights_only", _written_whole, "model filepath", ("H5IOStore(filepath",)),
        alone("optimizers", scaling, "check_finite", _finite_everywhere, "self grads", ("ops.isfinite(",)),
        alone("optimizers", optimizer, "_backend_apply_gradients", _branch_outside_of_replicas, "self grads", branches),
        alone("metrics", variable, "_direct_assign", _assign_unread, "self value", ("self._value.assign(",)),
        alone("scalars", variable, "__float__", _of_this_replica, "self", ("float(self.value)",), (3, 5)),
        alone("scalars", variable, "__int__", _of_this_replica, "self", ("int(self.value)",), (3, 5)),
    ]


NEWEST_OF_THE_OLDER: Minor = (3, 9)
"""The newest version that has any of `_older_parts`."""


def _older_parts(trainer: ModuleType) -> list[Part]:
    """What newer versions do not have any more, or do rightly."""
    model, epochs = trainer.TensorFlowTrainer, trainer.TFEpochIterator
    container, backup = trainer.callbacks_module.CallbackList, trainer.callbacks_module.BackupAndRestore
    optimizer = importlib.import_module(TF_OPTIMIZER).TFOptimizer
    variable, losses = importlib.import_module(CORE).Variable, importlib.import_module(LOSS)
    mean = trainer.metrics_module.Mean
    train, test = (functools.partial(_steps_of_their_own, kind) for kind in ("train", "test"))
    steps, batch_end = ("multi_step_on_iterator", "reduce_per_replica("), ("callback.on_train_batch_end(",)
    given = "self x y y_pred sample_weight"
    to_3_4, to_3_5, to_3_6, to_3_7 = (functools.partial(Part, until=(3, minor)) for minor in (4, 5, 6, 7))
    return [
        to_3_4("layers", variable, "_initialize", _make_seeds_of_signed_numbers, "self value", ("=tf.Variable(",)),
        to_3_4("optimizers", optimizer, "_backend_update_step", _sum_first, "self grads", ("list(zip(grads,",)),
        to_3_5("metrics", model, "_pythonify_logs", _leave_local_logs, "self logs", ("float(value)",)),
        to_3_5("callbacks", container, "on_train_batch_end", _stop_at_a_batch, "self batch", batch_end),
        to_3_6("fit", model, "make_train_function", train, "self force", steps),
        to_3_6("fit", model, "make_test_function", test, "self force", steps),
        to_3_6("input", epochs, "__init__", _tag_at_once, "self distribute_strategy", ("=self._get_iterator()",)),
        to_3_6("callbacks", backup, "on_train_begin", _restore_everywhere, "self logs", ("self.model.load_weights(",)),
        to_3_7("losses", losses, "reduce_values", _share_of_a_mean, "values", ("loss=ops.sum(values)",)),
        to_3_7("losses", model, "compute_loss", _share_of_what_is_added, given, ("self.losses",)),
        to_3_7("losses", mean, "update_state", _track_all_of_a_loss, "self values", ("self.total.assign",)),
        Part("metrics", variable, "_map_aggregation", _keep_apart, "self", ("aggregation]",), (3, 7), (3, 9)),
    ]


# ---- what the workers agree on
class Unison:
    """What the workers know of each other during one `fit` or `evaluate` of a model."""

    def __init__(self, strategy: Strategy) -> None:
        self.strategy = strategy
        self.testing = False
        self.agreed = False
        self.reads_batches = False
        """Some worker has a callback that reads the logs of training batches."""
        self.reads_test_batches = False
        self.looks_at_batches = False
        """Some worker has a callback that may stop the training, or save weights, after any batch."""
        self.shares_backup = False
        """All workers restore from the chief's backup."""
        self.stop_later = False
        """Here `stop_training` was set at a batch, where the others do not ask for it."""
        self.redirections: list[Redirection] = []

    @property
    def reads(self) -> bool:
        """Whether the logs of the batches of now are read."""
        return self.reads_test_batches if self.testing else self.reads_batches


_unisons: weakref.WeakKeyDictionary[Model, Unison] = weakref.WeakKeyDictionary()
_readers: weakref.WeakKeyDictionary[Model, tuple[list[Data], Function]] = weakref.WeakKeyDictionary()
_exchanges: weakref.WeakKeyDictionary[Strategy, Function] = weakref.WeakKeyDictionary()


def _in_unison(original: Function, announce: Announce) -> Function:
    def run(self: Model, *args: Any, **kwargs: Any) -> Any:
        if not _is_multi_worker(self.distribute_strategy):
            return original(self, *args, **kwargs)
        announce()
        outer = _unisons.get(self)
        if outer is not None and "_use_cached_eval_dataset" in kwargs:  # the validation of a `fit`
            return original(self, *args, **kwargs)
        unison = _unisons[self] = Unison(self.distribute_strategy)
        try:
            return original(self, *args, **kwargs)
        finally:
            for redirection in unison.redirections:
                _undo(redirection)
            if outer is None:
                del _unisons[self]
            else:
                _unisons[self] = outer

    return run


def _unison_of(container: Any) -> Unison | None:
    model = getattr(container, "model", None)
    return None if model is None else _unisons.get(model)


def _agree_on_callbacks(original: Function, _: Announce) -> Function:
    """Before any callback is told of its model: TensorBoard writes to its directory at once."""

    def __init__(self: Any, callbacks: Any = None, *args: Any, **kwargs: Any) -> None:  # noqa: N807
        model = kwargs.get("model")
        unison = None if model is None else _unisons.get(model)
        if unison is not None and not unison.agreed:
            shows = bool(kwargs.get("add_progbar")) and kwargs.get("verbose") in (1, "auto")
            _agree(unison, _flat(callbacks), shows)
        original(self, callbacks, *args, **kwargs)

    return __init__


def _agree_if_not_yet(original: Function, _: Announce) -> Function:
    """A `CallbackList` of the user's own was made before `fit`."""

    def on_train_begin(self: Any, logs: Any = None) -> None:
        unison = _unison_of(self)
        if unison is not None and not unison.agreed:
            _agree(unison, self.callbacks, shows=False)
        original(self, logs)

    return on_train_begin


def _agree(unison: Unison, callbacks: Sequence[Callback], shows: bool) -> None:
    """Learn what the callbacks of all workers need, and keep out of the chief's files."""
    own = {
        "reads": shows or any(_reads_batches(callback, "train") for callback in callbacks),
        "reads_test": shows or any(_reads_batches(callback, "test") for callback in callbacks),
        "looks": any(_looks_at_batches(callback) for callback in callbacks),
        "paths": [_path_of(callback) for callback in callbacks],
        "backups": [_path_of(callback) for callback in callbacks if _kind_of(callback) == "BackupAndRestore"],
    }
    index, everyone = _everyones(unison.strategy, own)
    unison.agreed = True
    unison.reads_batches = any(each["reads"] for each in everyone)
    unison.reads_test_batches = any(each["reads_test"] for each in everyone)
    unison.looks_at_batches = any(each["looks"] for each in everyone)
    unison.shares_backup = bool(own["backups"]) and all(each["backups"] == own["backups"] for each in everyone)
    if index > 0:
        taken = {path for path in everyone[0]["paths"] if path is not None}
        for callback in callbacks:
            if _path_of(callback) in taken:
                unison.redirections.append(_redirected(callback))


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


def _kind_of(callback: Callback) -> str:
    """The callback of Keras that it is, or is made from."""
    names = (kind.__name__ for kind in type(callback).__mro__ if kind.__module__.startswith("keras.src.callbacks."))
    return next(names, "")


def _path_of(callback: Callback) -> str | None:
    """Where it writes; None: nowhere that we know of."""
    attributes = WRITERS.get(_kind_of(callback))
    path = getattr(callback, attributes[0], None) if attributes else None
    return os.fspath(path) if isinstance(path, (str, os.PathLike)) else None


class Redirection(NamedTuple):
    """A callback that writes into a temporary directory, and where it wrote before."""

    callback: Callback
    scratch: Path
    before: dict[str, Any]


def _redirected(callback: Callback) -> Redirection:
    """Let a callback write what nobody reads: saving may need all workers, but one file needs only one."""
    first, *_ = attributes = WRITERS[_kind_of(callback)]
    scratch = Path(tempfile.mkdtemp(prefix="keras-worker-"))
    before = {name: getattr(callback, name) for name in attributes if hasattr(callback, name)}
    named = os.fspath(before[first])
    for name, path in before.items():
        setattr(callback, name, os.fspath(path).replace(named, str(scratch / Path(named).name), 1))
    return Redirection(callback, scratch, before)


def _undo(redirection: Redirection) -> None:
    for name, value in redirection.before.items():
        setattr(redirection.callback, name, value)
    shutil.rmtree(redirection.scratch, ignore_errors=True)


def _redirection_of(callback: Callback) -> Redirection | None:
    unison = _unison_of(callback)
    redirections = [] if unison is None else unison.redirections
    return next((each for each in redirections if each.callback is callback), None)


def _reads_batches(callback: Callback, phase: str) -> bool:
    """Whether it looks into the logs of batches; of Keras's own callbacks we know."""
    kind = _kind_of(callback)
    if type(callback).__name__ == kind:
        if kind in ("ModelCheckpoint", "BackupAndRestore"):
            return phase == "train" and callback.save_freq != "epoch"
        if kind == "TensorBoard":
            return bool(callback.update_freq != "epoch")
        if kind == "ProgbarLogger":
            return True
    hooks = ("on_batch_end", f"on_{phase}_batch_end")
    return not all(getattr(getattr(callback, hook), "_is_default", False) for hook in hooks)


def _looks_at_batches(callback: Callback) -> bool:
    """Whether it may stop the training, or look at the weights, between two batches."""
    return _kind_of(callback) not in ("TensorBoard", "ProgbarLogger") and _reads_batches(callback, "train")


def _flat(callbacks: Any) -> list[Callback]:
    if isinstance(callbacks, (list, tuple)):
        return [each for one in callbacks for each in _flat(one)]
    return [] if callbacks is None else [callbacks]


def _everyones(strategy: Strategy, value: Any) -> tuple[int, list[Any]]:
    """Own index, and the value (anything that JSON can tell) of every worker, the chief's first. All must call this."""
    own = list(json.dumps(value).encode())
    index, lengths = _rows(strategy, [len(own)])
    longest = max(int(length) for [length] in lengths)
    _, rows = _rows(strategy, own + [0] * (longest - len(own)))
    texts = (bytes(int(number) for number in row[: int(length)]) for row, [length] in zip(rows, lengths))
    return index, [json.loads(text) for text in texts]


def _rows(strategy: Strategy, numbers: list[int]) -> tuple[int, list[list[float]]]:
    """Own index, and as many numbers of every worker, in one all-reduce."""
    if strategy not in _exchanges:
        _exchanges[strategy] = _exchange(strategy)
    index, table = _exchanges[strategy](_tf().constant(numbers, dtype="float64"))
    return int(index), table.numpy().tolist()


def _exchange(strategy: Strategy) -> Function:
    tf = _tf()
    here = len(strategy.extended.worker_devices)
    workers = strategy.num_replicas_in_sync // here

    def in_replica(numbers: Data) -> tuple[Data, Data]:
        context = tf.distribute.get_replica_context()
        replica = tf.convert_to_tensor(context.replica_id_in_sync_group)
        index = replica // here
        mine = tf.where(replica % here == 0, numbers, tf.zeros_like(numbers))
        row = tf.one_hot(index, workers, dtype=tf.float64)
        return index, context.all_reduce("SUM", row[:, None] * mine[None, :])

    def exchange(numbers: Data) -> Data:
        results = strategy.run(in_replica, args=(numbers,))
        return tf.nest.map_structure(lambda value: strategy.experimental_local_results(value)[0], results)

    function: Function = tf.function(exchange, input_signature=[tf.TensorSpec([None], tf.float64)], autograph=False)
    return function


# ---- stopping
def _stop_at_a_batch(original: Function, _: Announce) -> Function:
    def on_train_batch_end(self: Any, batch: int, logs: Any = None) -> None:
        original(self, batch, logs)
        unison = _unison_of(self)
        if unison is not None and unison.looks_at_batches:
            self.model.stop_training = _any_worker(unison.strategy, self.model.stop_training)
        elif unison is not None and self.model.stop_training:
            unison.stop_later, self.model.stop_training = True, False

    return on_train_batch_end


def _stop_at_an_epoch(original: Function, _: Announce) -> Function:
    def on_epoch_end(self: Any, epoch: int, logs: Any = None) -> None:
        original(self, epoch, logs)
        unison = _unison_of(self)
        if unison is not None:
            stop = self.model.stop_training or unison.stop_later
            self.model.stop_training = _any_worker(unison.strategy, stop)

    return on_epoch_end


def _any_worker(strategy: Strategy, flag: bool) -> bool:
    _, rows = _rows(strategy, [int(bool(flag))])
    return any(value > 0 for [value] in rows)


def _begin_of_a_test(original: Function, _: Announce) -> Function:
    def on_test_begin(self: Any, logs: Any = None) -> None:
        unison = _unison_of(self)
        if unison is not None:
            unison.testing = True
            if not unison.agreed:
                _agree(unison, self.callbacks, shows=False)
        original(self, logs)

    return on_test_begin


def _end_of_a_test(original: Function, _: Announce) -> Function:
    def on_test_end(self: Any, logs: Any = None) -> None:
        unison = _unison_of(self)
        if unison is not None:
            unison.testing = False
        original(self, logs)

    return on_test_end


# ---- files
def _save_for_nothing(original: Function, _: Announce) -> Function:
    """A worker that is not the chief takes part in a save, and removes what it wrote at once."""

    def _save_model(self: Callback, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        redirection = _redirection_of(self)
        if redirection is not None:
            shutil.rmtree(redirection.scratch)
            redirection.scratch.mkdir()

    return _save_model


def _restore_everywhere(original: Function, _: Announce) -> Function:
    def on_train_begin(self: Callback, logs: Any = None) -> None:
        unison = _unison_of(self)
        if unison is None or not unison.shares_backup:
            original(self, logs)
            return
        is_chief = _redirection_of(self) is None
        _build_optimizer(self.model)
        found = is_chief and Path(self._weights_path).exists()
        if is_chief:
            original(self, logs)
        _, (chief, *_) = _everyones(unison.strategy, [found, self.model._initial_epoch])
        if chief[0]:
            _broadcast(unison.strategy, [*self.model.variables, *self.model.optimizer.variables])
            self.model._initial_epoch = chief[1]

    return on_train_begin


def _build_optimizer(model: Model) -> None:
    """Make its variables on all workers; until Keras 3.4 its first step would."""
    if model.built and model.optimizer is not None and not model.optimizer.built:
        with model.distribute_strategy.scope():
            model.optimizer.build(model.trainable_variables)


def _broadcast(strategy: Strategy, variables: Iterable[Any]) -> None:
    """Give every replica the chief's values."""
    tf = _tf()
    unique = {id(variable): variable for variable in variables if variable.value.dtype != tf.string}.values()
    mirrored = [variable for variable in unique if getattr(variable, "synchronization", "auto") != "on_read"]

    def in_replica() -> None:
        context = tf.distribute.get_replica_context()
        is_first = tf.equal(context.replica_id_in_sync_group, 0)
        own = [tf.convert_to_tensor(variable.value) for variable in mirrored]
        given = [tf.where(is_first, value, tf.zeros_like(value)) for value in own]
        for variable, value in zip(mirrored, _sums(given)):
            _assign_here(variable.value, value)

    tf.function(lambda: strategy.run(in_replica), autograph=False)()


def _assign_here(variable: Data, value: Data) -> None:
    """Set this replica's copy of a distributed variable, in replica context."""
    tf = _tf()
    local = variable._get_on_device_or_primary() if hasattr(variable, "_get_on_device_or_primary") else variable
    local.assign(tf.cast(value, local.dtype))


def _written_whole(original: Function, _: Announce) -> Function:
    """Workers that share a disk may save the same file: each writes its own, and the last one stays."""

    def save(model: Model, filepath: Any, *args: Any, **kwargs: Any) -> None:
        target = _one_file(filepath)
        several = any(args) or bool(kwargs.get("max_shard_size"))
        if target is None or several or not _is_multi_worker(getattr(model, "distribute_strategy", None)):
            original(model, filepath, *args, **kwargs)
            return
        own = target.with_name(f".{os.getpid()}-{target.name}")
        try:
            original(model, str(own), *args, **kwargs)
            own.replace(target)
        finally:
            own.unlink(missing_ok=True)

    return save


def _one_file(filepath: Any) -> Path | None:
    """The file of this machine that is meant, if one is and it can be written."""
    if not isinstance(filepath, str | os.PathLike) or "://" in str(filepath):
        return None
    path = Path(filepath)
    return path if path.name.endswith((".keras", ".weights.h5")) and path.parent.is_dir() else None


# ---- data
def _build_from_spec(original: Function, announce: Announce) -> Function:
    def _maybe_symbolic_build(self: Model, iterator: Data = None, data_batch: Data = None) -> None:
        if iterator is not None and _is_multi_worker(self._distribute_strategy):
            announce()
            iterator, data_batch = None, _one_replica_batch(iterator)
            self.built = self.built or _is_never_called(self)
        original(self, iterator=iterator, data_batch=data_batch)

    return _maybe_symbolic_build


def _is_never_called(model: Model) -> bool:
    """Whether its `train_step` uses nothing but its parts, as a GAN's does: there is no `call`, so no way to build it.

    Without a strategy Keras never tries to.
    """
    return type(model).call is importlib.import_module("keras.src.models.model").Model.call


def _one_replica_batch(epoch_iterator: Data) -> Data:
    """Something with the shapes and dtypes of one replica's batch: its spec, else (shapes unknown) a real batch."""
    tf, map_structure = _tf(), _trainer().tree.map_structure
    spec = _one_replica_spec(epoch_iterator._distributed_dataset)
    if spec is not None:
        return spec
    *_, iterator = next(_executions(epoch_iterator))
    local_values = epoch_iterator._distribute_strategy.experimental_local_results
    batch = map_structure(lambda value: local_values(value)[0], next(iterator))
    return map_structure(lambda leaf: None if isinstance(leaf, tf.experimental.Optional) else leaf, batch)


def _executions(epoch_iterator: Data) -> Iterator[Data]:
    return iter(epoch_iterator.enumerate_epoch() if hasattr(epoch_iterator, "enumerate_epoch") else epoch_iterator)


def _one_replica_spec(distributed: Data) -> Data:
    """The spec of one replica's batch from a distributed dataset, or an iterator of one; None: shapes are unknown."""
    tree = _trainer().tree
    spec = tree.map_structure(_first_replica_spec, distributed.element_spec)
    return spec if all(leaf is None or leaf.shape.rank is not None for leaf in tree.flatten(spec)) else None


def _first_replica_spec(spec: Data) -> Data:
    """The spec of the first replica's tensor; None for what is no tensor (a dataset carries None as a spec, too)."""
    first = spec._value_specs[0] if hasattr(spec, "_value_specs") else spec
    return first if hasattr(first, "dtype") else None


def _agree_on_length(original: Function, _: Announce) -> Function:
    """Where all shards have the same known length, nobody needs to ask before each batch who has one left.

    TensorFlow asks, by an all-reduce before each batch, unless the dataset is infinite.
    """

    def __init__(self: Any, distribute_strategy: Strategy = None, *args: Any, **kwargs: Any) -> None:  # noqa: N807
        original(self, distribute_strategy, *args, **kwargs)
        if not _is_multi_worker(distribute_strategy):
            return
        self._distributed_dataset = dataset = _of_its_own_memory(self, distribute_strategy)
        if not hasattr(dataset, "_enable_get_next_as_optional"):
            return
        own = _steps_known(self, len(distribute_strategy.extended.worker_devices))
        # Of what the user distributed by hand, Keras asks the length each time: it is set below.
        by_hand = not isinstance(getattr(self.data_adapter, "_dataset", None), (_tf().data.Dataset, type(None)))
        batches = 0 if by_hand or self.steps_per_epoch else self.data_adapter.num_batches or 0
        _, rows = _rows(distribute_strategy, [own, batches])
        _check_lengths([int(length) for _, length in rows])
        everyones = {int(length) for length, _ in rows}
        if everyones == {own} and own > 0:  # cardinalities below 0 are no lengths
            dataset._enable_get_next_as_optional = False
            setattr(dataset, EQUAL_SHARDS, own)
        elif len(everyones) > 1:
            dataset._enable_get_next_as_optional = True
            dataset._cardinality = UNKNOWN

    return __init__


def _check_lengths(batches: list[int]) -> None:
    """Keras ends an epoch after as many batches as this worker's dataset has, and knows nothing of the others'."""
    if len(set(batches)) > 1:
        told = ", ".join(f"{number or 'unknown'} on worker {index}" for index, number in enumerate(batches))
        raise InputEndedError(
            f"the workers' datasets have different numbers of batches: {told}. Give every worker the same number, or "
            "datasets that repeat, and `steps_per_epoch`."
        )


def _of_its_own_memory(epoch_iterator: Any, strategy: Strategy) -> Data:
    """The distributed dataset, whose tensors share no memory with what a Python generator has yielded.

    TensorFlow takes NumPy arrays from Python without a copy. Cut into the parts of the replicas they look like tensors
    that nobody else has, and steps compute in their memory: the arrays of the user's program change.
    """
    tf = _tf()
    distributed = epoch_iterator._distributed_dataset
    original = getattr(distributed, "_original_dataset", None)
    if not isinstance(original, tf.data.Dataset) or not _calls_python(original):
        return distributed

    @tf.autograph.experimental.do_not_convert  # type: ignore[untyped-decorator]
    def copied(*element: Data) -> Data:
        leaves = tf.nest.flatten(element, expand_composites=True)
        leaves = [leaf if leaf is None or not _is_number(leaf) else tf.raw_ops.DeepCopy(x=leaf) for leaf in leaves]
        packed = tf.nest.pack_sequence_as(element, leaves, expand_composites=True)
        return packed if isinstance(original.element_spec, tuple) else packed[0]

    pipeline = epoch_iterator.data_adapter.get_tf_dataset().map(copied)
    # Whoever drops the iterator waits for the thread that tunes it, and that can take as long as the epoch took.
    options = tf.data.Options()
    options.autotune.enabled = bool(original.options().autotune.enabled)
    return strategy.experimental_distribute_dataset(pipeline.with_options(options))


def _calls_python(dataset: Data) -> bool:
    graphs = (function.function.graph.as_graph_def() for function in dataset._functions())
    operations = (node.op for graph in graphs for nodes in (graph, *graph.library.function) for node in _nodes(nodes))
    return any("PyFunc" in op for op in operations) or any(_calls_python(each) for each in dataset._inputs())


def _nodes(graph: Any) -> Any:
    return graph.node if hasattr(graph, "node") else graph.node_def


def _steps_known(epoch_iterator: Any, replicas: int) -> int:
    """How many steps this worker has data for, before it looks."""
    if type(epoch_iterator.data_adapter).__name__ == "ArrayDataAdapter":
        # Every global batch is cut into as many parts as there are replicas, some of which may be empty.
        return int(epoch_iterator.data_adapter.num_batches)
    batches = int(epoch_iterator._distributed_dataset.cardinality)
    if batches > 0:
        return batches // replicas if batches % replicas == 0 else UNKNOWN
    return INFINITE if batches == INFINITE else UNKNOWN


class _Tagged:
    """A distributed dataset whose iterators know how many steps they are good for."""

    def __init__(self, dataset: Data, steps: int) -> None:
        self._dataset = dataset
        self._steps = steps

    def __getattr__(self, name: str) -> Any:
        return getattr(self._dataset, name)

    def __iter__(self) -> Iterator[Data]:
        iterator: Iterator[Data] = iter(self._dataset)
        setattr(iterator, EQUAL_SHARDS, self._steps)
        return iterator


def _tell_iterators_their_length(original: Function, _: Announce) -> Function:
    def _get_iterator(self: Any) -> Any:
        dataset = original(self)
        steps = getattr(self._distributed_dataset, EQUAL_SHARDS, None)
        return dataset if steps is None else _Tagged(dataset, steps)

    return _get_iterator


# ---- steps
class LocalLogs(dict[str, Any]):
    """The logs of a step as this worker has computed them, and what each of its replicas has."""

    per_replica: Data = None


def _steps_without_reductions(original: Function, announce: Announce) -> Function:
    def _make_function(self: Model, step_function: Function) -> Function:
        if not _is_multi_worker(self.distribute_strategy):
            stock: Function = original(self, step_function)
            return stock
        announce()
        return _function_of_steps(self, step_function)

    return _make_function


def _function_of_steps(model: Model, step_function: Function) -> Function:
    """What `fit` or `evaluate` calls for each execution."""
    on_batch, on_iterator = _traced_steps(model, _known_as_step(model, step_function))

    def function(iterator: Data) -> Data:
        if isinstance(iterator, _tf().distribute.DistributedIterator):
            outputs = _outputs_of(model, on_iterator, iterator)
            unison = _unisons.get(model)
            return _read(model, outputs) if unison is None or unison.reads else _local_logs(model, outputs)
        for _, data in zip(range(model.steps_per_execution), iterator):
            outputs = on_batch(data)
        return _read(model, outputs)

    return function


class _Step(threading.local):
    """The model whose step this replica computes now; None: it is in no step."""

    model: Model = None

    @property
    def replicas(self) -> int:
        return 1 if self.model is None else int(self.model.distribute_strategy.num_replicas_in_sync)


_step = _Step()


def _known_as_step(model: Model, step_function: Function) -> Function:
    def step(data: Data) -> Data:
        outer, _step.model = _step.model, model
        try:
            return step_function(data)
        finally:
            _step.model = outer

    return step


def _traced_steps(model: Model, step_function: Function) -> tuple[Function, Function]:
    """A function of one batch, and one of an iterator that does up to `steps_per_execution` steps.

    The second raises `OutOfRangeError` where the iterator has no batch left to begin with.
    """
    tf, strategy, steps = _tf(), model.distribute_strategy, model.steps_per_execution
    # As in Keras itself, AutoGraph does not touch the user's `train_step`.
    compiled = functools.partial(tf.function, autograph=False, reduce_retracing=True)

    def run(data: Data) -> Data:
        return strategy.run(step_function, args=(data,))

    if model.jit_compile is True and strategy.num_replicas_in_sync > 1:
        _say_once("jit_compile=True: XLA cannot compile an all-reduce between workers, the steps run without it")
    elif model.jit_compile is True and not model.run_eagerly:
        run = compiled(run, jit_compile=True)
    # None travels through a distributed dataset as an Optional; Keras before 3.12 does not convert it back.
    step = model._autoconvert_optionals(run) if hasattr(model, "_autoconvert_optionals") else run

    def steps_on_iterator(iterator: Data) -> Data:
        batch = iterator.get_next()
        if steps == 1:
            return step(batch)

        def next_step(done: Data, _: Data, outputs: Data) -> tuple[Data, Data, Data]:
            following = _next_or_none(iterator)
            more = following.has_value()
            return done + 1, more, tf.cond(more, lambda: step(following.get_value()), lambda: outputs)

        # At the end of the data nothing may happen, not even what needs no data: `optimizer.iterations` counts steps.
        with tf.control_dependencies(tf.nest.flatten(batch, expand_composites=True)):
            first = (tf.constant(1), tf.constant(True), step(batch))
        *_, outputs = tf.while_loop(lambda done, more, _: tf.logical_and(done < steps, more), next_step, first)
        return outputs

    if model.run_eagerly:
        return step, steps_on_iterator
    return compiled(step), compiled(steps_on_iterator)


def _built_before_it_predicts(original: Function, announce: Announce) -> Function:
    """Where a function creates variables, TensorFlow calls it in a branch: no place for several replicas of a worker.

    "You must feed a value for placeholder tensor 'cond/Placeholder'", says TensorFlow there.
    """

    def make_predict_function(self: Model, force: bool = False) -> Function | None:
        before = self.predict_function
        known: Function | None = original(self, force)
        if not _is_multi_worker(self.distribute_strategy) or self.predict_function is before:
            return known
        announce()
        predict = self.predict_function

        def predict_function(data: Data) -> Data:
            if not all(layer.built for layer in self._flatten_layers()):
                _build_for(self, data[0])
            return predict(data)

        self.predict_function = predict_function
        return known

    return make_predict_function


def _build_for(model: Model, batch: Data) -> None:
    """Create the model's variables, as `fit` does before its first step."""
    keras, strategy, tree = importlib.import_module("keras"), model.distribute_strategy, _trainer().tree
    inputs = batch[0] if isinstance(batch, tuple) else batch

    def symbolic(value: Data) -> Data:
        tensor = strategy.experimental_local_results(value)[0]
        return keras.KerasTensor((None, *tensor.shape[1:]), tensor.dtype.name)

    with strategy.scope():
        importlib.import_module("keras.src.backend").compute_output_spec(
            model, tree.map_structure(symbolic, inputs), training=False
        )


def _once_and_not_by_each(original: Function, announce: Announce) -> Function:
    """All replicas predict the same batch; Keras joins what they say."""

    def predict_on_batch(self: Model, x: Data) -> Data:
        outputs = original(self, x)
        if not _is_multi_worker(self.distribute_strategy):
            return outputs
        announce()
        replicas = self.distribute_strategy.num_replicas_in_sync
        return _trainer().tree.map_structure(lambda rows: rows[: len(rows) // replicas], outputs)

    return predict_on_batch


def _next_or_none(iterator: Data) -> Data:
    """The next batch as an Optional that is empty on all workers alike."""
    tf = _tf()
    if iterator._enable_get_next_as_optional or iterator._cardinality == INFINITE:
        return iterator.get_next_as_optional()
    optionals = iterator._iterators[0].get_next_as_optional_list()
    per_replica = importlib.import_module("tensorflow.python.distribute.input_lib")._create_per_replica
    return tf.cond(
        optionals[0].has_value(),
        lambda: tf.experimental.Optional.from_value(
            per_replica([optional.get_value() for optional in optionals], iterator._strategy)
        ),
        lambda: tf.experimental.Optional.empty(iterator._element_spec),
    )


def _outputs_of(model: Model, on_iterator: Function, iterator: Data) -> Data:
    """Raises OutOfRangeError at the common end of the data.

    Raises:
        InputEndedError: the data ended here before it ended for all.
    """
    done = getattr(iterator, "_multiworker_steps", 0)
    try:
        outputs = on_iterator(iterator)
    except (_tf().errors.OutOfRangeError, StopIteration) as error:
        if iterator._enable_get_next_as_optional:
            raise
        promised = getattr(iterator, EQUAL_SHARDS, None) if iterator._cardinality != INFINITE else None
        if iterator._cardinality == INFINITE or (promised is not None and done < promised):
            raise InputEndedError(
                f"the input of this worker ended after {done} steps, while its peers go on and wait for its gradients. "
                "Its shard is shorter than its dataset says (an infinite `repeat()`, or `assert_cardinality`): give "
                "every worker the same number of batches, or let `tf.data` find the length."
            ) from error
        raise
    iterator._multiworker_steps = done + model.steps_per_execution
    return outputs


def _local_logs(model: Model, outputs: Data) -> Data:
    local_results = model.distribute_strategy.experimental_local_results
    local = _trainer().tree.map_structure(lambda value: local_results(value)[0], outputs)
    if not isinstance(local, dict):
        return local
    logs = LocalLogs(local)
    logs.per_replica = outputs
    return logs


# ---- metrics
def _read_at_the_end(original: Function, announce: Announce) -> Function:
    def _get_metrics_result_or_logs(self: Model, logs: Data) -> Data:
        if not _is_multi_worker(self.distribute_strategy):
            return original(self, logs)
        announce()
        read = _read(self, logs.per_replica if isinstance(logs, LocalLogs) else logs, at_the_end=True)
        if not isinstance(read, dict):
            return read
        # Not all versions of Keras make numbers of what `evaluate` returns.
        return {name: _plain(value) for name, value in read.items()}

    return _get_metrics_result_or_logs


def _plain(value: Data) -> Data:
    """A number, where Keras and its NumPy would make one of it, too."""
    try:
        return float(value)
    except (TypeError, ValueError):
        return value


def _read(model: Model, outputs: Data, at_the_end: bool = False) -> Data:
    """The logs of all workers' examples: what the metrics say, or the mean of what a step of the user's own returned.

    At the end of an epoch, and where callbacks look at weights, what drifted apart is averaged on the same way.
    """
    unison = _unisons.get(model)
    with_drift = at_the_end or (unison is not None and unison.looks_at_batches and not unison.testing)
    metrics = _unique(variable for metric in model.metrics for variable in metric.variables)
    drifting = _drifting(model) if with_drift else []
    known, reader = _readers.get(model, ([], None))
    if reader is None or [id(v) for v in known] != [id(v) for v in [*metrics, *_drifting(model)]]:
        reader = _reader(model, metrics)
        _readers[model] = [*metrics, *_drifting(model)], reader
    return reader(_without_python_numbers(outputs), bool(drifting))


def _without_python_numbers(outputs: Data) -> Data:
    """For each number of Python TensorFlow would trace a graph of its own."""
    tf = _tf()
    return tf.nest.map_structure(
        lambda leaf: tf.convert_to_tensor(leaf) if isinstance(leaf, (int, float)) else leaf, outputs
    )


def _reader(model: Model, metrics: list[Data]) -> Function:
    tf, strategy = _tf(), model.distribute_strategy
    replicas = strategy.num_replicas_in_sync

    def in_replica(outputs: Data, with_drift: bool) -> Data:
        leaves = tf.nest.flatten(outputs)
        numbers = [i for i, leaf in enumerate(leaves) if leaf is not None and _is_number(tf.convert_to_tensor(leaf))]
        drifting = [variable.value for variable in _drifting(model)] if with_drift else []
        if isinstance(outputs, dict) and set(outputs) == set(model.get_metrics_result()):
            numbers = []
        given = [_share(variable) for variable in metrics]
        totals = _sums([*given, *[leaves[i] for i in numbers], *drifting])
        of_metrics, rest = totals[: len(metrics)], [total / replicas for total in totals[len(metrics) :]]
        for i, mean in zip(numbers, rest):
            leaves[i] = tf.cast(mean, tf.convert_to_tensor(leaves[i]).dtype)
        for variable, mean in zip(drifting, rest[len(numbers) :]):
            _assign_here(variable, mean)
        logs = tf.nest.pack_sequence_as(outputs, leaves)
        scope = importlib.import_module("keras").StatelessScope
        known = [(v, tf.cast(total, v.dtype)) for v, total in zip(metrics, of_metrics)]
        with scope(state_mapping=known):
            results = model.get_metrics_result()
        same = isinstance(logs, dict) and set(logs) == set(results)
        return results if same else logs

    def read(outputs: Data, with_drift: bool) -> Data:
        logs = strategy.run(in_replica, args=(outputs, with_drift))
        return _trainer().tree.map_structure(lambda value: strategy.experimental_local_results(value)[0], logs)

    function: Function = tf.function(read, autograph=False, reduce_retracing=True)
    return function


def _share(variable: Data) -> Data:
    """What this replica adds to the value of a metric's variable."""
    tf = _tf()
    value = tf.convert_to_tensor(variable.value)
    context = tf.distribute.get_replica_context()
    aggregation = getattr(variable, "aggregation", "sum")
    if aggregation == "sum":
        return value
    if aggregation == "mean":
        return tf.cast(value, tf.float64) / context.num_replicas_in_sync
    return tf.where(tf.equal(context.replica_id_in_sync_group, 0), value, tf.zeros_like(value))


def _sums(values: list[Data]) -> list[Data]:
    """The sum of each over all replicas, as float64, in one collective; called in replica context.

    32-bit integers and floats keep their value in float64.
    """
    tf = _tf()
    if not values:
        return []
    tensors = [tf.convert_to_tensor(value) for value in values]
    flat = [tf.reshape(tf.cast(tensor, tf.float64), [-1]) for tensor in tensors]
    summed = tf.distribute.get_replica_context().all_reduce("SUM", tf.concat(flat, axis=0))
    parts = tf.split(summed, [tf.size(part) for part in flat], num=len(flat))
    return [tf.reshape(part, tf.shape(tensor)) for part, tensor in zip(parts, tensors)]


def _assign_unread(original: Function, _: Announce) -> Function:
    """An assignment answers with the new value, which of a metric's variable is a sum over all workers.

    Nobody wants it where the metrics are reset, at the beginning of each epoch and each evaluation.
    """

    def _direct_assign(self: Any, value: Data) -> None:
        if _is_multi_worker(getattr(self._value, "distribute_strategy", None)):
            self._value.assign(_tf().cast(value, self._value.dtype), read_value=False)
        else:
            original(self, value)

    return _direct_assign


def _is_number(tensor: Data) -> bool:
    return bool(tensor.dtype.is_floating or tensor.dtype.is_integer)


def _unique(variables: Iterable[Data]) -> list[Data]:
    return list({id(variable): variable for variable in variables}.values())


def _drifting(model: Model) -> list[Data]:
    """The floats of the layers' state that no replica tells the others about. Frozen weights are not among them."""
    state = (variable for layer in model._flatten_layers() for variable in layer._non_trainable_variables)
    return _unique(variable for variable in state if _is_on_its_own(variable) and variable.value.dtype.is_floating)


def _is_on_its_own(variable: Any) -> bool:
    """Whether each replica has its own value. Until 3.8 Keras calls it "mean", unknown to TensorFlow."""
    named = getattr(variable, "aggregation", None)
    return named == "none" or (named == "mean" and variable.value.aggregation == _tf().VariableAggregation.NONE)


def _reduce_over_workers(original: Function, announce: Announce) -> Function:
    operations = {"auto": "MEAN", "mean": "MEAN", "sum": "SUM"}

    def reduce_per_replica(values: Data, strategy: Strategy, reduction: str) -> Data:
        if reduction not in operations or not _is_multi_worker(strategy):
            return original(values, strategy, reduction)
        announce()
        reduce_replica = functools.partial(_all_reduce, operations[reduction])
        reduced = strategy.run(reduce_replica, args=(values,))
        return _trainer().tree.map_structure(lambda value: strategy.experimental_local_results(value)[0], reduced)

    return reduce_per_replica


def _all_reduce(operation: str, values: Data) -> Data:
    """Reduce all numbers of a structure over all replicas; other leaves stay as they are. In replica context."""
    tf = _tf()
    leaves: list[Data] = [leaf if leaf is None else tf.convert_to_tensor(leaf) for leaf in tf.nest.flatten(values)]
    numbers = [i for i, leaf in enumerate(leaves) if leaf is not None and _is_number(leaf)]
    replicas = tf.distribute.get_replica_context().num_replicas_in_sync if operation == "MEAN" else 1
    for i, total in zip(numbers, _sums([leaves[i] for i in numbers])):
        leaves[i] = tf.cast(total / replicas, leaves[i].dtype)
    return tf.nest.pack_sequence_as(values, leaves)


# ---- optimizers
def _finite_everywhere(original: Function, announce: Announce) -> Function:
    """Keras takes the first replica's answer for all, and so each worker its own: they would part for ever."""

    def check_finite(self: Any, grads: Data) -> Data:
        finite = original(self, grads)
        tf = _tf()
        if not _is_multi_worker(tf.distribute.get_strategy()) or tf.distribute.in_cross_replica_context():
            return finite
        announce()
        infinite = tf.cast(tf.logical_not(finite), tf.float32)
        return tf.equal(tf.distribute.get_replica_context().all_reduce("SUM", infinite), 0)

    return check_finite


def _branch_outside_of_replicas(original: Function, announce: Announce) -> Function:
    """Accumulate gradients, and overwrite variables by their averages, without a collective in a replica's branch.

    What else Keras does here, and not in `apply`: clip and decay since 3.5, count the iterations until 3.9.
    """
    source = inspect.getsource(original)
    clips, counts = "self._clip_gradients(" in source, "iterations.assign_add(1)" in source

    def _backend_apply_gradients(self: Any, grads: Data, trainable_variables: Data) -> None:
        branches = self.gradient_accumulation_steps or (self.use_ema and self.ema_overwrite_frequency)
        if not branches or not _is_multi_worker(self._distribution_strategy):
            original(self, grads, trainable_variables)
            return
        announce()
        variables = list(trainable_variables)
        _apply_or_accumulate(self, list(grads), variables, clips)
        if self.use_ema:
            self._update_model_variables_moving_average(self._trainable_variables)
            if self.ema_overwrite_frequency:
                _overwrite_by_averages(self)
        if counts:
            _counted_iterations(self).assign_add(1)

    return _backend_apply_gradients


def _of_this_replica(original: Function, _: Announce) -> Function:
    """`float(model.optimizer.learning_rate)`: a variable of several replicas is no number to Python, its value is."""

    def number(self: Any) -> Any:
        of_several = _is_multi_worker(getattr(self.value, "distribute_strategy", None))
        return original(_Value(self.ndim, self.shape, _tf().convert_to_tensor(self.value)) if of_several else self)

    return number


class _Value(NamedTuple):
    """As much of a Keras variable as it takes to make a number of it."""

    ndim: int
    shape: tuple[int, ...]
    value: Data


def _counted_iterations(optimizer: Any) -> Any:
    """The variable that counts; since 3.5 `iterations` counts updates, of which several iterations may make one."""
    return optimizer._iterations if hasattr(optimizer, "_iterations") else optimizer.iterations


def _apply_or_accumulate(optimizer: Any, grads: list[Data], variables: list[Data], clips: bool) -> None:
    """What Keras does with the gradients of a step, in replica context."""
    steps = optimizer.gradient_accumulation_steps
    kept = [optimizer._accumulated_gradients[optimizer._get_variable_index(v)] for v in variables] if steps else []

    def update(grads: list[Data]) -> None:
        means = [(grad + other) / steps for grad, other in zip(grads, kept)] if steps else grads
        if clips:
            means = optimizer._clip_gradients(means)
            optimizer._apply_weight_decay(variables)
        optimizer._backend_update_step(means, variables, optimizer.learning_rate)
        if steps:
            optimizer._backend_reset_gradient_accumulators()

    def accumulate(grads: list[Data]) -> None:
        optimizer._backend_increment_gradient_accumulators(grads, kept)

    def across_replicas(strategy: Strategy, grads: list[Data]) -> None:
        def on_each(function: Function) -> Function:
            return lambda: [strategy.extended.call_for_each_replica(function, args=(grads,)), None][1]

        due = (_counted_iterations(optimizer) + 1) % steps == 0
        _tf().cond(due, on_each(update), on_each(accumulate))

    if steps:
        _tf().distribute.get_replica_context().merge_call(across_replicas, args=(grads,))
    else:
        update(grads)


def _overwrite_by_averages(optimizer: Any) -> None:
    """In replica context, when it is time."""

    def across_replicas(_: Strategy) -> None:
        due = (optimizer.iterations + 1) % optimizer.ema_overwrite_frequency == 0
        overwrite = optimizer._overwrite_model_variables_with_average_value
        _tf().cond(due, lambda: [overwrite(optimizer._trainable_variables), None][1], lambda: None)

    _tf().distribute.get_replica_context().merge_call(across_replicas)


# ---- older versions
def _steps_of_their_own(kind: str, original: Function, announce: Announce) -> Function:
    """Until 3.6 `make_train_function` and `make_test_function` are alike, and have no `_make_function` in common."""

    def make_function(self: Model, force: bool = False) -> Function | None:
        known = getattr(self, f"{kind}_function")
        if not _is_multi_worker(self.distribute_strategy) or (known is not None and not force):
            stock: Function | None = original(self, force)
            return stock
        announce()
        function = _function_of_steps(self, getattr(self, f"{kind}_step"))
        setattr(self, f"{kind}_function", _built_before_its_first_step(self, function))
        return None

    return make_function


def _built_before_its_first_step(model: Model, function: Function) -> Function:
    """Until 3.4 nothing builds a model before its step is traced, where several replicas of a worker cannot."""
    if hasattr(model, "_maybe_symbolic_build"):
        return function

    def build_and_step(iterator: Data) -> Data:
        if isinstance(iterator, _tf().distribute.DistributedIterator):
            batch = _one_replica_spec(iterator)
        else:
            batch = next(iterator)
            iterator = itertools.chain([batch], iterator)
        model.built = model.built or _is_never_called(model)
        if batch is not None:
            with model.distribute_strategy.scope():
                model._symbolic_build(data_batch=batch)
        return function(iterator)

    return build_and_step


def _tag_at_once(original: Function, _: Announce) -> Function:
    """Until 3.6 the epochs iterate over the attribute, and `_get_iterator` gives what it is made from."""

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807
        original(self, *args, **kwargs)
        steps = getattr(self._distributed_dataset, EQUAL_SHARDS, None)
        if steps is not None:
            self._distributed_dataset = _Tagged(self._distributed_dataset, steps)

    return __init__


def _leave_local_logs(original: Function, _: Announce) -> Function:
    """Until 3.5 `fit` makes numbers of the logs of each execution, and forgets what each replica has."""

    def _pythonify_logs(self: Model, logs: Data) -> Data:
        return logs if isinstance(logs, LocalLogs) else original(self, logs)

    return _pythonify_logs


def _sum_first(original: Function, announce: Announce) -> Function:
    """Until 3.4 the gradients would be summed where no replica can: each replica would apply its own."""

    def _backend_update_step(self: Any, grads: Data, trainable_variables: Data, learning_rate: Data) -> None:
        if _is_multi_worker(self._distribution_strategy) and not _tf().distribute.in_cross_replica_context():
            announce()
            summed = self._all_reduce_sum_gradients(list(zip(grads, trainable_variables)))
            grads = [grad for grad, _ in summed]
        original(self, grads, trainable_variables, learning_rate)

    return _backend_update_step


def _share_of_a_mean(original: Function, _: Announce) -> Function:
    """Until 3.7 each replica's loss is the mean of its own examples, and the sum of their gradients is too large.

    Until 3.6 the mean of no examples is no number.
    """
    arguments, tf = inspect.signature(original), _tf()

    def reduce_values(*args: Any, **kwargs: Any) -> Data:
        loss = original(*args, **kwargs)
        given = arguments.bind(*args, **kwargs)
        given.apply_defaults()
        values, reduction = given.arguments["values"], given.arguments["reduction"]
        is_mean = reduction in ("sum_over_batch_size", "mean", "mean_with_sample_weight")
        if _step.replicas == 1 or not is_mean or tuple(values.shape) in ((), (0,)):
            return loss
        return tf.math.multiply_no_nan(loss, tf.cast(tf.size(values) > 0, loss.dtype) / _step.replicas)

    return reduce_values


def _share_of_what_is_added(original: Function, _: Announce) -> Function:
    """The same for regularizers and `add_loss`."""

    def compute_loss(
        self: Model, x: Data = None, y: Data = None, y_pred: Data = None, sample_weight: Data = None, **kwargs: Any
    ) -> Data:
        if _step.replicas == 1 or not self.losses:
            return original(self, x, y, y_pred, sample_weight, **kwargs)
        ops, tf = importlib.import_module("keras").ops, _tf()
        own = None if self._compile_loss is None else self._compile_loss(y, y_pred, sample_weight)
        added = [tf.reduce_sum(ops.cast(loss, "float32")) / _step.replicas for loss in self.losses]
        return ops.sum(added if own is None else [own, *added])

    return compute_loss


def _track_all_of_a_loss(original: Function, _: Announce) -> Function:
    """What Keras tells of a loss is that of the whole batch, as with one replica."""

    def update_state(self: Any, values: Data, sample_weight: Data = None) -> Any:
        if _step.replicas > 1 and any(self is tracker for tracker in _trackers_of_losses(_step.model)):
            values = values * _step.replicas
        return original(self, values, sample_weight)

    return update_state


def _trackers_of_losses(model: Model) -> list[Any]:
    return [model._loss_tracker, *getattr(model._compile_loss, "metrics", [])]


def _keep_apart(original: Function, _: Announce) -> Function:
    """From 3.7 to 3.9 each update of a metric adds up what all replicas have: each must have its own part.

    Until 3.6 each has, and since 3.10 its parts are added up when they are read.
    """

    def _map_aggregation(self: Any, aggregation: str) -> Any:
        on_its_own = aggregation in ("sum", "mean") and _is_multi_worker(_tf().distribute.get_strategy())
        return original(self, "none" if on_its_own else aggregation)

    return _map_aggregation


def _make_seeds_of_signed_numbers(original: Function, _: Announce) -> Function:
    """Until 3.4 the seeds of Dropout and others are of a type that TensorFlow's collectives cannot carry."""

    def _initialize(self: Any, value: Data) -> None:
        if self._dtype == "uint32" and _is_multi_worker(_tf().distribute.get_strategy()):
            self._dtype, value = "int64", _tf().cast(value, "int64")
        original(self, value)

    return _initialize


# ---- small things
def _is_multi_worker(strategy: Strategy) -> bool:
    """Of one worker, too: gradient accumulation, and what computes in the arrays of a generator, fail there as well.

    Not in a program that builds graphs by hand (`with tf.Graph().as_default()`): it gets Keras as it is.
    """
    tf = _tf()
    is_strategy = isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy)
    return is_strategy and bool(tf.compat.v1.executing_eagerly_outside_functions())


@functools.cache
def _tf() -> ModuleType:
    return importlib.import_module("tensorflow")


@functools.cache
def _trainer() -> ModuleType:
    return importlib.import_module(TRAINER)


def _once(line: str) -> Callable[[], None]:
    return functools.cache(functools.partial(_say, line))


@functools.cache
def _say_once(line: str) -> None:
    _say(line)


def _say(line: str) -> None:
    print(PREFIX, line, file=sys.stderr, flush=True)
