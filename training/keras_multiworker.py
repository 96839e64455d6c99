"""Makes Keras 3 `Model.fit`, `evaluate` and `predict` work under `MultiWorkerMirroredStrategy`.

Stock Keras 3 (3.5 to 3.15 at least) stops in its TensorFlow trainer as soon as there are two workers
(keras-team/keras#20585). Four places are at fault, and only these are replaced, each only where its fault is found:

* `_maybe_symbolic_build` averages a structure of per-replica batches over all workers, which TensorFlow refuses.
  Only shapes and dtypes are wanted, and the dataset's element spec has them.
* `reduce_per_replica` averages scalars over their axis 0. Here all numbers of a step travel in one all-reduce.
* `_make_function` calls a `tf.function` inside the loop of `steps_per_execution`, where a collective cannot be given
  its instance key. Here the step is traced into the loop itself, and only the last step's numbers are reduced.
* `_get_metrics_result_or_logs`, the end of every epoch and evaluation, knows nothing of variables that each replica
  changes on its own (the moving statistics of BatchNormalization). Here they are averaged there, in one all-reduce.

With one worker, and under any other strategy, the original code runs. This file stands alone: it needs Keras and
TensorFlow, nothing else.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import sys
import weakref
from collections.abc import Callable
from types import ModuleType
from typing import Any

PREFIX = "tf-launch:"
TRAINER = "keras.src.backend.tensorflow.trainer"
MARK = "_multiworker_fix"

# Keras and TensorFlow carry no types: these names say what is meant.
Function = Callable[..., Any]
Announce = Callable[[], None]
Model = Any
Strategy = Any
Data = Any  # a nested structure of tensors or of values per replica


def enable() -> str | None:
    """Replace what is broken in the imported Keras 3; calling it again changes nothing.

    One line on stderr names the Keras version and what was replaced as soon as a model is trained, evaluated or
    built by two or more workers. Where Keras 3 looks different from what is known, a line says so at once.

    Returns:
        The names of the functions that are now replaced, in words; None: Keras was left alone (it is not Keras 3, it
        does not run on TensorFlow, it is not recognised, or it has none of the faults).
    """
    keras = importlib.import_module("keras")
    if not keras.__version__.startswith("3.") or keras.config.backend() != "tensorflow":
        return None
    try:
        trainer = importlib.import_module(TRAINER)
        if not hasattr(trainer, MARK):
            setattr(trainer, MARK, _replace_faulty(trainer, keras.__version__))
    except (ImportError, AttributeError, TypeError, OSError) as error:
        _say(f"Keras {keras.__version__} is not recognised ({error}): left alone under MultiWorkerMirroredStrategy")
        return None
    replaced: str | None = getattr(trainer, MARK)
    return replaced


def _replace_faulty(trainer: ModuleType, version: str) -> str | None:
    found = [(owner, name, make) for owner, name, make, signs in _parts(trainer) if _has(getattr(owner, name), signs)]
    if not found:
        _say(f"Keras {version} has none of the known faults under MultiWorkerMirroredStrategy: left alone")
        return None
    names = ", ".join(name for _, name, _ in found)
    announce = _once(f"Keras {version} under MultiWorkerMirroredStrategy with two or more workers: replaced {names}")
    for owner, name, make in found:
        setattr(owner, name, make(trainer, getattr(owner, name), announce))
    return names


def _parts(trainer: ModuleType) -> list[tuple[Any, str, Function, tuple[str, ...]]]:
    """What may be replaced: owner, name, replacement, and the source text (without blanks) that shows the fault.

    Raises:
        TypeError: a function is not called as it was in the versions that are known.
    """
    model = trainer.TensorFlowTrainer
    _check_parameters(model._maybe_symbolic_build, "self", "iterator", "data_batch")
    _check_parameters(trainer.reduce_per_replica, "values", "strategy", "reduction")
    _check_parameters(model._make_function, "self", "step_function")
    _check_parameters(model._get_metrics_result_or_logs, "self", "logs")
    return [
        (model, "_maybe_symbolic_build", _build_from_spec, ("strategy.reduce(", "maybe_distributed_data_batch")),
        (trainer, "reduce_per_replica", _reduce_over_workers, ('strategy.reduce("MEAN",v,axis=0)',)),
        (model, "_make_function", _loop_over_steps, ("tf.while_loop(", "tf.cond(", "tf.function(")),
        (model, "_get_metrics_result_or_logs", _average_drifted, ("self.get_metrics_result()",)),
    ]


def _check_parameters(function: Function, *names: str) -> None:
    found = tuple(inspect.signature(function).parameters)
    if found != names:
        raise TypeError(f"{function.__name__}({', '.join(found)}) where ({', '.join(names)}) was expected")


def _has(function: Function, signs: tuple[str, ...]) -> bool:
    source = "".join(inspect.getsource(function).split())
    return all(sign in source for sign in signs)


def _build_from_spec(trainer: ModuleType, original: Function, announce: Announce) -> Function:
    @functools.wraps(original)
    def _maybe_symbolic_build(self: Model, iterator: Data = None, data_batch: Data = None) -> None:
        if iterator is not None and _spans_workers(trainer, self._distribute_strategy):
            announce()
            iterator, data_batch = None, _one_replica_batch(trainer, iterator)
        original(self, iterator=iterator, data_batch=data_batch)

    return _maybe_symbolic_build


def _one_replica_batch(trainer: ModuleType, epoch_iterator: Data) -> Data:
    """Something with the shapes and dtypes of one replica's batch: its spec, else (shapes unknown) a real batch."""
    map_structure = trainer.tree.map_structure
    spec = map_structure(_first_replica_spec, epoch_iterator._distributed_dataset.element_spec)
    if all(leaf is None or leaf.shape.rank is not None for leaf in trainer.tree.flatten(spec)):
        return spec
    _, _, iterator = next(iter(epoch_iterator))
    local_values = epoch_iterator._distribute_strategy.experimental_local_results
    batch = map_structure(lambda value: local_values(value)[0], next(iterator))
    return map_structure(lambda leaf: None if isinstance(leaf, trainer.tf.experimental.Optional) else leaf, batch)


def _first_replica_spec(spec: Data) -> Data:
    """The spec of the first replica's tensor; None for what is no tensor (a dataset carries None as a spec, too)."""
    first = spec._value_specs[0] if hasattr(spec, "_value_specs") else spec
    return first if hasattr(first, "dtype") else None


def _reduce_over_workers(trainer: ModuleType, original: Function, announce: Announce) -> Function:
    operations = {"auto": "MEAN", "mean": "MEAN", "sum": "SUM"}

    @functools.wraps(original)
    def reduce_per_replica(values: Data, strategy: Strategy, reduction: str) -> Data:
        if reduction not in operations or not _spans_workers(trainer, strategy):
            return original(values, strategy, reduction)
        announce()
        reduce_replica = functools.partial(_all_reduce, trainer.tf, operations[reduction])
        reduced = strategy.run(reduce_replica, args=(values,))
        return trainer.tree.map_structure(lambda value: strategy.experimental_local_results(value)[0], reduced)

    return reduce_per_replica


def _all_reduce(tf: ModuleType, operation: str, values: Data) -> Data:
    """Reduce all numbers of a structure over all replicas in one collective; other leaves stay as they are.

    Called in replica context. The numbers travel as float64, in which 32-bit integers and floats keep their value.
    """
    leaves: list[Data] = [leaf if leaf is None else tf.convert_to_tensor(leaf) for leaf in tf.nest.flatten(values)]
    numbers = [i for i, leaf in enumerate(leaves) if leaf is not None and _is_number(leaf.dtype)]
    if numbers:
        flat = [tf.reshape(tf.cast(leaves[i], tf.float64), [-1]) for i in numbers]
        reduced = tf.distribute.get_replica_context().all_reduce(operation, tf.concat(flat, axis=0))
        for i, part in zip(numbers, tf.split(reduced, [tf.size(part) for part in flat]), strict=True):
            leaves[i] = tf.cast(tf.reshape(part, tf.shape(leaves[i])), leaves[i].dtype)
    return tf.nest.pack_sequence_as(values, leaves)


def _is_number(dtype: Data) -> bool:
    return bool(dtype.is_floating or dtype.is_integer)


def _loop_over_steps(trainer: ModuleType, original: Function, announce: Announce) -> Function:
    @functools.wraps(original)
    def _make_function(self: Model, step_function: Function) -> Function:
        run_on_batches: Function = original(self, step_function)
        if self.steps_per_execution == 1 or not _spans_workers(trainer, self.distribute_strategy):
            return run_on_batches
        announce()
        run_on_iterator = _steps_in_one_graph(trainer, self, step_function)

        def function(iterator: Data) -> Data:
            distributed = isinstance(iterator, trainer.tf.distribute.DistributedIterator)
            return run_on_iterator(iterator) if distributed else run_on_batches(iterator)

        return function

    return _make_function


def _steps_in_one_graph(trainer: ModuleType, model: Model, step_function: Function) -> Function:
    """A function of a distributed iterator: up to `steps_per_execution` steps, the last one's numbers reduced.

    It raises `OutOfRangeError` on all workers alike where the iterator has no batch left to begin with.
    """
    tf, strategy, steps = trainer.tf, model.distribute_strategy, model.steps_per_execution

    def run(data: Data) -> Data:
        return strategy.run(step_function, args=(data,))

    # None travels through a distributed dataset as an Optional; Keras before 3.12 does not convert it back.
    step = model._autoconvert_optionals(run) if hasattr(model, "_autoconvert_optionals") else run

    def steps_on_iterator(iterator: Data) -> Data:
        def next_step(done: Data, _: Data, outputs: Data) -> tuple[Data, Data, Data]:
            batch = iterator.get_next_as_optional()
            # The same on all workers: TensorFlow all-reduces it, and feeds empty batches to those who ran out early.
            more = batch.has_value()
            return done + 1, more, tf.cond(more, lambda: step(batch.get_value()), lambda: outputs)

        batch = iterator.get_next()
        # At the end of the data nothing may happen, not even what needs no data: `optimizer.iterations` counts steps.
        with tf.control_dependencies(tf.nest.flatten(batch, expand_composites=True)):
            first = (tf.constant(1), tf.constant(True), step(batch))
        *_, outputs = tf.while_loop(lambda done, more, _: tf.logical_and(done < steps, more), next_step, first)
        return trainer.reduce_per_replica(outputs, strategy, reduction="auto")

    # As in Keras itself, AutoGraph does not touch the user's `train_step`.
    compiled: Function = tf.function(steps_on_iterator, autograph=False, reduce_retracing=True)
    return steps_on_iterator if model.run_eagerly else compiled


def _average_drifted(trainer: ModuleType, original: Function, announce: Announce) -> Function:
    averages: weakref.WeakKeyDictionary[Model, tuple[list[Data], Function]] = weakref.WeakKeyDictionary()

    @functools.wraps(original)
    def _get_metrics_result_or_logs(self: Model, logs: Data) -> Data:
        variables = _drifting(self) if _spans_workers(trainer, self.distribute_strategy) else []
        if variables:
            announce()
            known, average = averages.get(self, ([], None))
            if average is None or [id(v) for v in known] != [id(v) for v in variables]:
                average = _averaging(trainer.tf, self.distribute_strategy, variables)
                averages[self] = variables, average
            average()
        return original(self, logs)

    return _get_metrics_result_or_logs


def _drifting(model: Model) -> list[Data]:
    """The floats of the layers' state that no replica tells the others about. Frozen weights are not among them."""
    state = (variable for layer in model._flatten_layers() for variable in layer._non_trainable_variables)
    alone = (variable for variable in state if getattr(variable, "aggregation", None) == "none")
    return [variable for variable in alone if variable.value.dtype.is_floating]


def _averaging(tf: ModuleType, strategy: Strategy, variables: list[Data]) -> Function:
    def in_replica() -> None:
        means = _all_reduce(tf, "MEAN", [variable.value for variable in variables])
        for variable, mean in zip(variables, means, strict=True):
            variable.value.assign(mean)

    average: Function = tf.function(lambda: strategy.run(in_replica), autograph=False)
    return average


def _spans_workers(trainer: ModuleType, strategy: Strategy) -> bool:
    multi_worker = isinstance(strategy, trainer.tf.distribute.MultiWorkerMirroredStrategy)
    return multi_worker and bool(strategy.extended._in_multi_worker_mode())


def _once(line: str) -> Callable[[], None]:
    return functools.cache(functools.partial(_say, line))


def _say(line: str) -> None:
    print(PREFIX, line, file=sys.stderr, flush=True)
