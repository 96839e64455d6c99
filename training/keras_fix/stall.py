"""Keras 3 programs do not wait for tf.data to take its iterators apart.

`fit`, `evaluate` and `predict` make a tf.data iterator for every epoch and drop it. TensorFlow tells the thread that
tunes it to end and joins that thread, but the message can get lost: `Model::OptimizeLoop` is woken by
`CancellationManager::StartCancel` a moment before `IsCancelled()` says so. Then it sleeps on, up to as long as the
iterator has lived and a minute at most, and whoever dropped the iterator waits for it.

Here the last references to an iterator that Keras made are dropped by a thread of its own, so that only this thread
waits, and the process ends without it. What an iterator yields, and how tf.data tunes it, stays as it is.

A pipeline that calls Python (a generator, `tf.py_function`) is dropped as before: nothing may call Python while the
interpreter ends, or a generator from two threads. It runs without the thread that tunes it: what takes time there is
Python, one call after the other, and its `AUTOTUNE`s are what they are before anything is tuned.
"""

from __future__ import annotations

import ctypes
import functools
import importlib
import inspect
import queue
import signal
import sys
import threading
import time
import weakref
from collections.abc import Iterable
from types import ModuleType
from typing import Any

from .log import say
from .pipelines import Observed, calls_python
from .recognising import TRAINER, keras_on_tensorflow
from .untyped import Dataset, Function

MARK = "_drops_iterators"
THREAD = "tf-launch: drops tf.data iterators"
LAST_ATTRIBUTE = "_dropped_by_a_thread"
GRACE = 0.1  # seconds at the end of the interpreter for threads that are not asleep

Resources = list[Any]  # handles that keep a TensorFlow resource alive


def enable() -> str | None:
    """Have the iterators of the imported Keras 3 dropped by a thread; calling it again changes nothing.

    Returns:
        The name of the function that is now replaced; None: Keras was left alone (it is not Keras 3 on TensorFlow, or
        it is not recognised).
    """
    keras = keras_on_tensorflow()
    if keras is None:
        return None
    trainer = importlib.import_module(TRAINER)
    if not hasattr(trainer, MARK):
        setattr(trainer, MARK, replace_dataset_of(trainer))
    replaced: str | None = getattr(trainer, MARK)
    if replaced is None:
        say(f"Keras {keras.__version__} is not recognised: `fit` may wait at its epochs' ends")
    return replaced


def replace_dataset_of(trainer: ModuleType) -> str | None:
    """Replace the function that decides over which dataset Keras iterates; its name, None: it is not recognised."""
    epochs = getattr(trainer, "TFEpochIterator", None)
    for name, (sign, replacement) in REPLACED.items():
        original = getattr(epochs, name, None)
        if inspect.isfunction(original) and sign in "".join(inspect.getsource(original).split()):
            of_epochs = functools.partial(attended, trainer.tf, Undertaker())
            setattr(epochs, name, functools.wraps(original)(replacement(original, of_epochs)))
            return name
    return None


class Undertaker:
    """Has each iterator dropped by a thread of its own.

    One thread for all would not do: an iterator that waits for its turn lives on, and the longer it has lived, the
    longer it takes to be dropped.
    """

    def __init__(self) -> None:
        self._given: queue.SimpleQueue[Resources | None] = queue.SimpleQueue()
        self._dropping: set[threading.Thread] = set()
        self._awaited: weakref.WeakSet[Legacy] = weakref.WeakSet()
        self._thread = threading.Thread(target=self._hand_out, name=f"{THREAD}, one by one", daemon=True)
        self._begin = functools.cache(self._begin_once)

    def _begin_once(self) -> None:
        self._thread.start()
        # Not `atexit`: who calls its functions and then `os._exit` need not wait, and the standard library offers no
        # public hook between the two. `concurrent.futures` uses this one.
        threading._register_atexit(self._end)  # type: ignore[attr-defined]

    def attend(self, iterator: Any, resources: Resources) -> None:
        """Have `resources` dropped by a thread as soon as `iterator`, to which they belong, is dropped."""
        self._begin()
        # Attributes go in the order in which they came: when this one does, the iterator holds the resources no more.
        legacy = Legacy(iterator, resources, self._given)
        self._awaited.add(legacy)
        setattr(iterator, LAST_ATTRIBUTE, legacy)

    def _hand_out(self) -> None:
        while (resources := self._given.get()) is not None:
            self._dropping = {thread for thread in self._dropping if thread.is_alive()}
            thread = threading.Thread(target=resources.clear, name=THREAD, daemon=True)
            self._dropping.add(thread)
            thread.start()

    def _end(self) -> None:
        """Called when the interpreter ends."""
        hand_over(self._awaited)
        self._given.put(None)
        self._thread.join()
        soon = time.monotonic() + GRACE
        for thread in self._dropping:
            thread.join(max(0.0, soon - time.monotonic()))
        asleep = [thread for thread in self._dropping if thread.is_alive()]
        if asleep and not left_asleep(asleep):
            for thread in asleep:
                thread.join()


def left_asleep(threads: list[threading.Thread]) -> bool:
    """Let the process end without these threads; False: not here, they must be waited for.

    They wait inside TensorFlow. The interpreter to which they would return is gone by then: so they never return, and
    the context of TensorFlow in which they wait is not destroyed.
    """
    if sys.platform != "linux":
        return False
    context = importlib.import_module("tensorflow.python.eager.context").context()
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(context._handle))
    libc = ctypes.CDLL(None)
    # A signal handler that does not return: pause() waits for a signal, and the kernel prefers the main thread for it.
    libc.signal(signal.SIGRTMAX, ctypes.cast(libc.pause, ctypes.c_void_p))
    for thread in threads:
        if thread.ident is not None:
            signal.pthread_kill(thread.ident, signal.SIGRTMAX)
    return True


class Legacy:
    """Hands the resources of an iterator to the undertaker when the iterator is dropped."""

    def __init__(self, iterator: Any, resources: Resources, heir: queue.SimpleQueue[Resources | None]) -> None:
        self.iterator = weakref.ref(iterator)
        self._resources = resources
        self._heir = heir

    def __del__(self) -> None:
        self._heir.put(self._resources)


def hand_over(legacies: Iterable[Legacy]) -> None:
    """Have the resources of living iterators handed over, too: from now on nobody may use these iterators.

    An epoch that was left before its end refers to itself, and the traceback of an error refers to its epoch.
    """
    for legacy in tuple(legacies):
        iterator = legacy.iterator()
        if iterator is not None:
            vars(iterator).clear()


def attended(tf: ModuleType, undertaker: Undertaker, epoch_iterator: Any, dataset_of: Function) -> Dataset:
    """The dataset of a Keras epoch iterator, with iterators that the undertaker drops."""
    dataset = dataset_of(epoch_iterator)
    pipeline = getattr(dataset, "_original_dataset", dataset)
    if not isinstance(pipeline, tf.data.Dataset) or not tf.compat.v1.executing_eagerly_outside_functions():
        return dataset
    if calls_python(pipeline):
        if pipeline.options().autotune.enabled is None:
            leave_untuned(epoch_iterator, pipeline, is_distributed=dataset is not pipeline)
        return dataset_of(epoch_iterator)
    return Observed(dataset, lambda made: undertaker.attend(made, tf.nest.flatten(made, expand_composites=True)))


def for_each_epoch(original: Function, attended: Function) -> Function:
    """Keras 3.7 and newer asks for the dataset at the beginning of each epoch."""

    def _get_iterator(self: Any) -> Any:
        return attended(self, original)

    return _get_iterator


def for_all_epochs(original: Function, attended: Function) -> Function:
    """Keras before 3.7 iterates over the attribute."""

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807
        original(self, *args, **kwargs)
        self._distributed_dataset = attended(self, lambda epochs: epochs._distributed_dataset)

    return __init__


REPLACED: dict[str, tuple[str, Function]] = {
    "_get_iterator": ("returnself._distributed_dataset", for_each_epoch),
    "__init__": ("dataset=self._get_iterator()", for_all_epochs),
}
"""Functions of `TFEpochIterator`, the source text (without blanks) by which each is known, and what replaces it."""


def leave_untuned(epoch_iterator: Any, pipeline: Dataset, *, is_distributed: bool) -> None:
    """Iterate over the pipeline without the thread that tunes it, from now on."""
    options = type(pipeline.options())()
    options.autotune.enabled = False
    untuned = pipeline.with_options(options)
    if is_distributed:
        untuned = epoch_iterator._distribute_strategy.experimental_distribute_dataset(untuned)
    epoch_iterator._distributed_dataset = untuned
