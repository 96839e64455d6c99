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
"""

from __future__ import annotations

import functools
import inspect
import os
import sys
import time
import weakref
from typing import TYPE_CHECKING, Any

from .log import say
from .progress_file import ProgressFile
from .recognising import keras_on_tensorflow
from .untyped import CallbackList, Function, Model

if TYPE_CHECKING:
    from .input_clock import InputClock

MARK = "_reports_progress"
Logs = Any


def enable() -> bool:
    """Have every `fit` of the imported Keras 3 report its progress; calling it again changes nothing.

    A Keras that looks different from what is known is left alone, and a line on stderr says so.

    Returns:
        Whether it does. Not so without `LAUNCH_PROGRESS`, in Keras 2, and on another backend than TensorFlow.
    """
    path, keras = os.environ.get("LAUNCH_PROGRESS"), keras_on_tensorflow()
    if not path or keras is None:
        return False
    callback_list = keras.callbacks.CallbackList
    if not hasattr(callback_list, MARK):
        try:
            from .input_clock import InputClock  # it imports TensorFlow, which Keras on another backend does without

            methods = heard_by(Reporter(path, InputClock()), callback_list)
        except (AttributeError, TypeError, ImportError) as error:
            say(f"Keras {keras.__version__} is not recognised ({error}): no reports of progress")
            return False
        for name, method in methods.items():
            setattr(callback_list, name, method)
        setattr(callback_list, MARK, True)
    return True


def heard_by(reporter: Reporter, callback_list: type) -> dict[str, Function]:
    """The methods through which `fit` tells its callbacks what happens; each tells the reporter, too.

    Not a callback: one with batch hooks would have Keras wait for every step, and the numbers of each reduced.

    Raises:
        AttributeError, TypeError: a method is missing, or is called in another way than is known.
    """
    methods = {}
    for name, (first, hear) in reporter.hooks.items():
        original = getattr(callback_list, name)
        if list(inspect.signature(original).parameters) != list(dict.fromkeys(["self", first, "logs"])):
            raise TypeError(f"CallbackList.{name}{inspect.signature(original)}")
        methods[name] = and_then(original, hear)
    return methods


def and_then(original: Function, hear: Function) -> Function:
    @functools.wraps(original)
    def method(self: CallbackList, *arguments: Any, **named: Any) -> None:
        original(self, *arguments, **named)
        hear(self, *arguments, **named)

    return method


class Reporter:
    """Hears what `fit` tells its callbacks."""

    def __init__(self, path: str, clock: InputClock) -> None:
        self._file = ProgressFile(path)
        self._clock = clock
        self._fits: weakref.WeakKeyDictionary[CallbackList, FitProgress] = weakref.WeakKeyDictionary()
        self.hooks: dict[str, tuple[str, Function]] = {
            "on_train_begin": ("logs", self.fit_begins),
            "on_epoch_begin": ("epoch", self.epoch_begins),
            "on_train_batch_begin": ("batch", self.execution_begins),
            "on_train_batch_end": ("batch", self.execution_ends),
            "on_test_batch_end": ("batch", self.validation_goes_on),
            "on_epoch_end": ("epoch", self.epoch_ends),
            "on_train_end": ("logs", self.fit_ends),
        }
        """By the name of the hook: its first parameter, and who hears of it."""

    def fit_begins(self, callbacks: CallbackList, logs: Logs = None) -> None:  # noqa: ARG002
        model = getattr(callbacks, "model", None)
        # A list of the user's own may have no model, and a program that builds graphs by hand has no numbers to read.
        if model is not None and self._clock.has_numbers():
            self._clock.prepare()
            self._fits[callbacks] = FitProgress(model, (callbacks.params or {}).get("steps"), self._clock)

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
        if fit and self._file.due():
            self._file.append({**fit.place(), "validation_batch": int(batch) + 1}, {})

    def epoch_ends(self, callbacks: CallbackList, epoch: int, logs: Logs = None) -> None:  # noqa: ARG002
        if fit := self._fits.get(callbacks):
            fit.end_epoch()
            self._tell(fit, logs)

    def fit_ends(self, callbacks: CallbackList, logs: Logs = None) -> None:
        fit = self._fits.pop(callbacks, None)
        if fit and fit.made_steps and self._file.last_one_due():
            self._file.finish({**fit.place(), **fit.pace()}, logs)

    def _tell(self, fit: FitProgress, logs: Logs) -> None:
        if self._file.due():
            self._file.append({**fit.place(), **fit.pace()}, logs)


class FitProgress:
    """How far one `fit` is, and how fast."""

    def __init__(self, model: Model, steps_an_epoch: int | None, clock: InputClock) -> None:
        self._model = model
        self._steps_an_epoch = steps_an_epoch
        self._clock = clock
        self._step = self._first_step = iterations_of(model) or 0
        self._epoch = 0
        self._epoch_from = self._last_execution = 0
        self._counted_from: int | None = None
        self._since: float | None = None
        self._paced = Pace()

    @property
    def made_steps(self) -> bool:
        """Whether there is anything to tell."""
        return self._step > self._first_step

    def begin_epoch(self, epoch: int) -> None:
        self._epoch = epoch
        self._epoch_from, self._counted_from = self._step, iterations_of(self._model)
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
        """Where the length of the epoch was unknown, the optimizer tells how many steps the last execution made."""
        self._clock.ignore()  # an execution that found no batch has begun and not ended
        counted = iterations_of(self._model)
        if counted is None or self._counted_from is None:
            return
        made = counted - self._counted_from
        if self._last_execution < made <= self._step - self._epoch_from:
            self._step = self._epoch_from + made

    def place(self) -> dict[str, int]:
        return {"step": self._step, "epoch": self._epoch}

    def pace(self) -> dict[str, float]:
        """Of the steps since the last call."""
        return self._paced.taken(self._clock.seconds(self._model))


class Pace:
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


def iterations_of(model: Model) -> int | None:
    """How many steps the optimizer was called for; None: there is no optimizer."""
    optimizer = getattr(model, "optimizer", None)
    optimizer = getattr(optimizer, "inner_optimizer", optimizer)
    iterations = getattr(optimizer, "iterations", None)
    if iterations is None:
        return None
    updates = int(sys.modules["keras"].ops.convert_to_numpy(iterations))
    return updates * (getattr(optimizer, "gradient_accumulation_steps", None) or 1)
