"""A program with the lines of Keras 2 at which public programs stop: a shape without a comma, TensorFlow's own
functions in a functional model, `optimizers.legacy`, `optimizer.lr`, checkpoints in TensorFlow's format,
`reset_states`, SavedModels.

`python keras2_lines.py [lr]`: with all of these lines, or with one.
"""

import os
import sys

import numpy as np
import tensorflow as tf

OUTPUT = os.environ["LAUNCH_OUTPUT_DIR"]


def wants(line):
    return sys.argv[1:] in ([], [line])


strategy = tf.distribute.MultiWorkerMirroredStrategy()
with strategy.scope():
    inputs = tf.keras.Input(shape=(4) if wants("shape") else (4,))
    hidden = tf.keras.layers.Dense(2)(inputs)
    if wants("function"):
        hidden = tf.clip_by_value(hidden, -10.0, 10.0)
    model = tf.keras.Model(inputs, tf.keras.layers.Dense(1)(hidden))
    optimizer = tf.keras.optimizers.legacy.SGD(0.05) if wants("legacy") else tf.keras.optimizers.SGD(0.05)
    model.compile(optimizer=optimizer, loss="mse")


class LearningRate(tf.keras.callbacks.Callback):
    """Prints the learning rate after each epoch."""

    def on_epoch_end(self, epoch, logs=None):
        print("learning rate", float(tf.keras.backend.get_value(self.model.optimizer.lr)))


callbacks = [LearningRate()] if wants("lr") else []
if wants("checkpoint"):
    path = os.path.join(OUTPUT, "ckpt", f"worker-{strategy.cluster_resolver.task_id}")
    callbacks.append(tf.keras.callbacks.ModelCheckpoint(path, save_weights_only=True))
values = np.linspace(-1.0, 1.0, 64, dtype="float32").reshape(16, 4)
history = model.fit(values, values.sum(axis=1), batch_size=8, epochs=2, verbose=0, callbacks=callbacks)
if wants("reset"):
    tf.keras.metrics.Mean().reset_states()
if wants("save"):
    model.save(os.path.join(OUTPUT, f"saved-{strategy.cluster_resolver.task_id}"), save_format="tf")
print("replicas", strategy.num_replicas_in_sync, "learned", history.history["loss"][-1] < history.history["loss"][0])
