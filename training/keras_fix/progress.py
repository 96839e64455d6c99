"""Reports the progress of any Keras 3 `fit` in the file that `LAUNCH_PROGRESS` names, one JSON object a line.

    {"step": 812, "epoch": 3, "steps_per_second": 96.2, "input_seconds": 0.001, "loss": 0.3, "metrics": {"auc": 0.9}}

* `step`: training steps that the weights have seen: where the optimizer's own count stood when `fit` began, and on.
* `epoch`: the one under way, counted from 0.
* `loss`, `metrics`: within an epoch what this worker's own examples came to so far, or those of all workers where a
  callback reads the logs of batches; at the end of an epoch what Keras gives its callbacks, `val_` metrics included.
* `steps_per_second`: since the report before, without the time between two epochs and without the first execution,
  which is traced. Left out where no such step was made.
* `input_seconds`: of those steps, how long one waited for its batch. Told where each step begins by fetching it: with
  `steps_per_execution=1`, and where the fix for several workers is at work. Elsewhere TensorFlow fetches a batch while
  the step before is computed. Not measured in eager steps, and under `enable_op_determinism`.
* `validation_batch`: batches that the validation under way has seen; such a line repeats the step.

A line is written after the first step and at the end of `fit`, in between at most twice a second, by a thread of its
own, so that no step waits for a disk or a device. No collective is added, and nothing here depends on other workers.
This file stands alone: it needs Keras and TensorFlow, nothing else.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import json
import math
import os
import sys
import time
import weakref
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from types import ModuleType
from typing import Any

PREFIX = "tf-launch:"
SECONDS_BETWEEN_REPORTS = 0.5
MARK = "_reports_progress"

# Keras and TensorFlow carry no types: these names say what is meant.
Function = Callable[..., Any]
Model = Any
CallbackList = Any
Logs = Any
Variable = Any


def enable() -> bool:
    """Have every `fit` of the imported Keras 3 report its progress; calling it again changes nothing.

    A Keras that looks different from what is known is left alone, and a line on stderr says so.

    Returns:
        Whether it does. Not so without `LAUNCH_PROGRESS`, in Keras 2, and on another backend than TensorFlow.
    """
    path = os.environ.get("LAUNCH_PROGRESS")
    keras = importlib.import_module("keras")
    if not path or not keras.__version__.startswith("3.") or keras.config.backend() != "tensorflow":
        return False
    callback_list = keras.callbacks.CallbackList
    if not hasattr(callback_list, MARK):
        try:
            followed = _followed(callback_list, _Reporter(path, _InputClock(importlib.import_module("tensorflow"))))
        except (AttributeError, TypeError, ImportError) as error:
            _say(f"Keras {keras.__version__} is not recognised ({error}): no reports of progress")
            return False
        for name, method in followed.items():
            setattr(callback_list, name, method)
        setattr(callback_list, MARK, True)
    return True


def _followed(callback_list: type, reporter: _Reporter) -> dict[str, Function]:
    """The methods through which `fit` tells its callbacks what happens, each with a reporter that hears of it, too.

    Not a callback: one with batch hooks would have Keras wait for every step, and the numbers of each reduced.

    Raises:
        AttributeError, TypeError: a method is missing, or is called in another way than is known.
    """
    heard: dict[str, tuple[str, Function]] = {
        "on_train_begin": ("logs", reporter.fit_begins),
        "on_epoch_begin": ("epoch", reporter.epoch_begins),
        "on_train_batch_begin": ("batch", reporter.execution_begins),
        "on_train_batch_end": ("batch", reporter.execution_ends),
        "on_test_batch_end": ("batch", reporter.validation_goes_on),
        "on_epoch_end": ("epoch", reporter.epoch_ends),
        "on_train_end": ("logs", reporter.fit_ends),
    }
    methods = {}
    for name, (first, hear) in heard.items():
        original = getattr(callback_list, name)
        if list(inspect.signature(original).parameters) != list(dict.fromkeys(["self", first, "logs"])):
            raise TypeError(f"CallbackList.{name}{inspect.signature(original)}")
        methods[name] = _then(original, hear)
    return methods


def _then(original: Function, hear: Function) -> Function:
    @functools.wraps(original)
    def method(self: CallbackList, *arguments: Any, **named: Any) -> None:
        original(self, *arguments, **named)
        hear(self, *arguments, **named)

    return method


class _Reporter:
    """Hears what `fit` tells its callbacks."""

    def __init__(self, path: str, clock: _InputClock) -> None:
        self._lines = _Lines(path)
        self._clock = clock
        self._fits: weakref.WeakKeyDictionary[CallbackList, _Fit] = weakref.WeakKeyDictionary()

    def fit_begins(self, callbacks: CallbackList, logs: Logs = None) -> None:  # noqa: ARG002
        model = getattr(callbacks, "model", None)
        # A list of the user's own may have no model, and a program that builds graphs by hand has no numbers to read.
        if model is not None and self._clock.has_numbers():
            self._clock.prepare()
            self._fits[callbacks] = _Fit(model, (callbacks.params or {}).get("steps"), self._clock)

    def epoch_begins(self, callbacks: CallbackList, epoch: int, logs: Logs = None) -> None:  # noqa: ARG002
        if fit := self._fits.get(callbacks):
            fit.begin_epoch(int(epoch))

    def execution_begins(self, callbacks: CallbackList, batch: int, logs: Logs = None) -> None:  # noqa: ARG002
        if fit := self._fits.get(callbacks):
            fit.begin_execution()

    def execution_ends(self, callbacks: CallbackList, batch: int, logs: Logs = None) -> None:  # noqa: ARG002
        if fit := self._fits.get(callbacks):
            fit.end_execution()
            self._tell(fit, logs)

    def validation_goes_on(self, callbacks: CallbackList, batch: int, logs: Logs = None) -> None:  # noqa: ARG002
        fit = self._fits.get(callbacks)  # none: `evaluate` on its own
        if fit and self._lines.due():
            self._lines.append({**fit.place(), "validation_batch": int(batch) + 1}, {})

    def epoch_ends(self, callbacks: CallbackList, epoch: int, logs: Logs = None) -> None:  # noqa: ARG002
        if fit := self._fits.get(callbacks):
            fit.end_epoch()
            self._tell(fit, logs)

    def fit_ends(self, callbacks: CallbackList, logs: Logs = None) -> None:
        fit = self._fits.pop(callbacks, None)
        if fit and fit.made_steps and self._lines.last_one_due():
            self._lines.finish({**fit.place(), **fit.pace()}, logs)

    def _tell(self, fit: _Fit, logs: Logs) -> None:
        if self._lines.due():
            self._lines.append({**fit.place(), **fit.pace()}, logs)


class _Fit:
    """How far one `fit` is, and how fast."""

    def __init__(self, model: Model, steps_an_epoch: int | None, clock: _InputClock) -> None:
        self._model = model
        self._steps_an_epoch = steps_an_epoch
        self._clock = clock
        self._step = self._first_step = _iterations(model) or 0
        self._epoch = 0
        self._epoch_from = self._last_execution = 0
        self._counted_from: int | None = None
        self._since: float | None = None
        self._paced = _Paced()

    @property
    def made_steps(self) -> bool:
        """Whether there is anything to tell."""
        return self._step > self._first_step

    def begin_epoch(self, epoch: int) -> None:
        self._epoch = epoch
        self._epoch_from, self._counted_from = self._step, _iterations(self._model)
        self._since = None

    def begin_execution(self) -> None:
        self._since = self._since or time.monotonic()
        self._clock.listen(self._model)

    def end_execution(self) -> None:
        """Count the steps of an execution. Which batch Keras names then differs between its versions."""
        self._clock.ignore()
        self._last_execution = self._step - self._epoch_from
        steps = int(self._model.steps_per_execution)
        if self._steps_an_epoch:
            steps = max(1, min(steps, self._steps_an_epoch - self._last_execution))
        now = time.monotonic()
        if self.made_steps:
            self._paced.add(steps, now - (self._since or now))
        else:
            self._paced.begin(self._clock.seconds(self._model))
        self._step += steps
        self._since = now

    def end_epoch(self) -> None:
        """Where nobody knew how long the epoch would be, the optimizer knows now what its last execution was."""
        self._clock.ignore()  # an execution that found no batch has begun and not ended
        counted = _iterations(self._model)
        if counted is None or self._counted_from is None:
            return
        made = counted - self._counted_from
        if self._last_execution < made <= self._step - self._epoch_from:
            self._step = self._epoch_from + made

    def place(self) -> dict[str, int]:
        return {"step": self._step, "epoch": self._epoch}

    def pace(self) -> dict[str, float]:
        """Since this was asked for the last time."""
        return self._paced.taken(self._clock.seconds(self._model))


class _Paced:
    """Steps, the seconds that they took, and how many of these were waits for a batch."""

    def __init__(self) -> None:
        self._steps = 0
        self._seconds = 0.0
        self._waited_before: float | None = None

    def begin(self, waited: float | None) -> None:
        self._waited_before = waited

    def add(self, steps: int, seconds: float) -> None:
        self._steps += steps
        self._seconds += seconds

    def taken(self, waited: float | None) -> dict[str, float]:
        if not self._steps or self._seconds <= 0:
            return {}
        pace = {"steps_per_second": round(self._steps / self._seconds, 3)}
        if waited is not None and self._waited_before is not None:
            pace["input_seconds"] = round((waited - self._waited_before) / self._steps, 6)
        self._steps, self._seconds, self._waited_before = 0, 0.0, waited
        return pace


class _InputClock:
    """Adds up the time that training steps wait for their batch, inside the graph that fetches it.

    The time is taken right before and after the fetch from this worker's own iterator, so that waiting for peers is no
    part of it.
    """

    def __init__(self, tf: ModuleType) -> None:
        iterator_ops = importlib.import_module("tensorflow.python.data.ops.iterator_ops")
        # Deterministic programs may not ask for the time: TensorFlow refuses `tf.timestamp`.
        self._is_determinism_enabled = importlib.import_module(
            "tensorflow.python.framework.config"
        ).is_op_determinism_enabled
        self._resource_variable_ops = importlib.import_module("tensorflow.python.ops.resource_variable_ops")
        self._tf = tf
        self._total: Variable = None
        self._listening_to: Model = None
        self._timed: weakref.WeakSet[Function] = weakref.WeakSet()
        """Train functions whose graph takes the time."""
        for name in ("_next_internal", "get_next_as_optional"):
            original = getattr(iterator_ops.OwnedIterator, name)
            setattr(iterator_ops.OwnedIterator, name, self._timing(original))

    def has_numbers(self) -> bool:
        """Whether the program computes eagerly, whatever it compiles."""
        return bool(self._tf.compat.v1.executing_eagerly_outside_functions())

    def prepare(self) -> None:
        """Make the sum, when TensorFlow has been set up by the program."""
        if self._total is None:
            # Not `tf.Variable`: within the scope of a strategy that would be one on all workers.
            with self._tf.init_scope(), self._tf.device("CPU:0"):
                self._total = self._resource_variable_ops.ResourceVariable(0.0, dtype=self._tf.float64, trainable=False)

    def listen(self, model: Model) -> None:
        """What is traced from now on belongs to the training steps of this model."""
        timed = _fetches_first(self._tf, model) and not self._is_determinism_enabled()
        self._listening_to = model if timed else None

    def ignore(self) -> None:
        self._listening_to = None

    def seconds(self, model: Model) -> float | None:
        """The sum so far for one replica; None: it is not known of this model."""
        if model.train_function not in self._timed:
            return None
        return float(self._total.numpy()) / _local_replicas(model.distribute_strategy)

    def _timing(self, original: Function) -> Function:
        @functools.wraps(original)
        def fetch(iterator: Any) -> Any:
            model, tf = self._listening_to, self._tf
            if model is None or model.train_function is None or tf.executing_eagerly():
                return original(iterator)
            self._timed.add(model.train_function)
            before = self._now([])
            with tf.control_dependencies([before]):
                batch = original(iterator)
            after = self._now(tf.nest.flatten(batch, expand_composites=True))
            self._total.assign_add(after - before, read_value=False)
            return batch

        return fetch

    def _now(self, done: list[Any]) -> Any:
        with self._tf.control_dependencies(done), self._tf.device("CPU:0"):
            return self._tf.timestamp()


class _Lines:
    """The file: lines are due every half second, and written by a thread."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._next = self._next_last = 0.0
        self._thread: ThreadPoolExecutor | None = None
        self._writing: Future[None] | None = None
        self._broken = False

    def due(self) -> bool:
        """Whether it is time for a line, and the one before has been written."""
        return not self._broken and time.monotonic() >= self._next and (self._writing is None or self._writing.done())

    def last_one_due(self) -> bool:
        """A `fit` has a last line, whenever it ends; but not each of hundreds that end within a second."""
        return not self._broken and time.monotonic() >= self._next_last

    def append(self, record: Mapping[str, Any], logs: Logs) -> None:
        """Write a line soon, with what is a plain number in `logs`."""
        self._next = time.monotonic() + SECONDS_BETWEEN_REPORTS
        self._thread = self._thread or ThreadPoolExecutor(1, "tf-launch-progress")
        self._writing = self._thread.submit(self._write, record, _plain_numbers(logs))

    def finish(self, record: Mapping[str, Any], logs: Logs) -> None:
        """Write the last line of a `fit`, and return when it is written."""
        self.append(record, logs)
        self._next_last = self._next
        if self._writing is not None:
            self._writing.result()

    def _write(self, record: Mapping[str, Any], logs: Mapping[str, Any]) -> None:
        metrics = {name: _finite(value) for name, value in logs.items()}
        loss = {"loss": metrics.pop("loss")} if "loss" in metrics else {}
        line = json.dumps({**record, **loss, **({"metrics": metrics} if metrics else {})}) + "\n"
        try:
            with open(self._path, "a", encoding="utf-8") as file:  # noqa: PTH123 - a name as it is given
                file.write(line)
        except OSError as error:
            self._broken = True
            _say(f"no reports of progress, training goes on: {self._path}: {error.strerror}")


def _plain_numbers(logs: Logs) -> dict[str, Any]:
    """Scalars that this process has: reading anything else might need the other workers."""
    if not isinstance(logs, dict):
        return {}
    return {name: value for name, value in logs.items() if _is_plain(value)}


def _is_plain(value: Any) -> bool:
    if isinstance(value, (int, float)):
        return True
    tf, numpy = sys.modules["tensorflow"], sys.modules["numpy"]
    return isinstance(value, (tf.Tensor, numpy.ndarray, numpy.generic)) and value.shape == ()


def _finite(value: Any) -> float | None:
    """The number, on a device or not; None: infinite or none. A step that failed has no number, and says so itself."""
    try:
        number = float(value)
    except sys.modules["tensorflow"].errors.OpError:
        return None
    return number if math.isfinite(number) else None


def _iterations(model: Model) -> int | None:
    """The steps that the optimizer has been asked for; None: there is no optimizer."""
    optimizer = getattr(model, "optimizer", None)
    optimizer = getattr(optimizer, "inner_optimizer", optimizer)
    iterations = getattr(optimizer, "iterations", None)
    if iterations is None:
        return None
    updates = int(sys.modules["keras"].ops.convert_to_numpy(iterations))
    return updates * (getattr(optimizer, "gradient_accumulation_steps", None) or 1)


def _fetches_first(tf: ModuleType, model: Model) -> bool:
    """Whether a step does nothing before it has its batch."""
    strategy = model.distribute_strategy
    multi_worker = isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy)
    return model.steps_per_execution == 1 or (multi_worker and bool(strategy.cluster_resolver.cluster_spec()))


def _local_replicas(strategy: Any) -> int:
    return len(strategy.extended.worker_devices) if strategy.num_replicas_in_sync > 1 else 1


def _say(line: str) -> None:
    print(PREFIX, line, file=sys.stderr, flush=True)
