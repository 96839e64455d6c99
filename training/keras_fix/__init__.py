"""Makes Keras 3 work under `MultiWorkerMirroredStrategy`: `fit`, `evaluate`, `predict`, callbacks, optimizers.

Stock Keras 3 stops in its TensorFlow trainer as soon as there are two workers (keras-team/keras#20585), and where it
would go on, its callbacks know nothing of workers. Only the functions named in `parts.py` are replaced, each only
where its fault is found in its source, and each does what it always did under any other strategy, and under none:

* **Steps.** No number is reduced in a step but what the mathematics needs, the gradients. `steps_per_execution` traces
  the step into the loop itself: a collective inside a function that is called from a loop cannot be given its key.
* **Data.** Workers whose shards have the same known length need not ask each other before each batch whether anyone
  has one left. A worker that runs out alone raises `InputEndedError` instead of leaving its peers to wait for ever.
* **Metrics.** The state of all metrics travels in one all-reduce when it is read: at the end of an epoch or an
  evaluation, and after each execution if some worker has a callback that reads the logs of batches. What is read is
  exact: the metric of all examples, not the mean of the workers' metrics. The statistics that each replica moves on its
  own (BatchNormalization) are averaged in the same all-reduce.
* **Callbacks.** All workers stop at the same step when one sets `stop_training`. What the chief writes, no one else
  writes: the others are given a temporary directory. `BackupAndRestore` restores the chief's backup everywhere.
* **Optimizers.** All replicas skip a step with infinite gradients alike; accumulating gradients and overwriting
  variables by their averages branch outside of the replicas, where TensorFlow allows a collective in a branch.
* **Losses.** A replica's loss is its share of the mean over the global batch, as Keras 3.8 and newer have it.

Keras 3.3 to 3.15 is served on TensorFlow 2.16 to 2.21; `parts.py` says of each function in which versions it is faulty.

    import keras_fix

    keras_fix.enable()

Two chapters have an `enable()` of their own, and help with any strategy: `stall` (an epoch does not wait for tf.data at
its end) and `progress` (reports of every `fit`).

The folder stands alone: it needs Python 3.9, Keras and TensorFlow, and may be copied anywhere and have any name.
"""

from .enabling import edition, enable

__all__ = ["edition", "enable"]
