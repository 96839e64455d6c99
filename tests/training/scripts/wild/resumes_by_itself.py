"""BackupAndRestore in a program that knows of no launcher; a worker dies once, as a preempted machine does."""

import pathlib

import numpy as np
import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
died_before = pathlib.Path("died-before")


class Preemption(tf.keras.callbacks.Callback):
    def on_epoch_begin(self, epoch, logs=None):
        if epoch == 2 and strategy.cluster_resolver.task_id == 1 and not died_before.exists():
            died_before.touch()
            raise ConnectionError("the machine is taken away")


x = np.linspace(-1, 1, 64 * 3, dtype="float32").reshape(64, 3)
y = x @ np.array([[1.0], [2.0], [3.0]], dtype="float32")
with strategy.scope():
    model = tf.keras.Sequential([tf.keras.Input((3,)), tf.keras.layers.Dense(1)])
    model.compile(optimizer=tf.keras.optimizers.SGD(0.05, momentum=0.9), loss="mse")
history = model.fit(
    x,
    y,
    batch_size=16,
    epochs=4,
    callbacks=[tf.keras.callbacks.BackupAndRestore("backup"), Preemption()],
    verbose=2,
)
print("epochs in this life:", history.epoch, "steps:", int(model.optimizer.iterations.numpy()))
