"""A multi-worker program as people write it; it says what it has learned in the last line.

python fit_as_in_tutorial.py
"""

import json
import os

import numpy as np
import tensorflow as tf

per_worker_batch_size = 12
tf_config = json.loads(os.environ["TF_CONFIG"])
num_workers = len(tf_config["cluster"]["worker"])
global_batch_size = per_worker_batch_size * num_workers

strategy = tf.distribute.MultiWorkerMirroredStrategy()


def make_dataset(batch_size):
    x = np.linspace(-1, 1, 28 * 28 * 360).reshape(360, 28, 28).astype("float32")
    y = (np.arange(360) % 10).astype("int64")
    return tf.data.Dataset.from_tensor_slices((x, y)).shuffle(360, seed=3).repeat().batch(batch_size)


def build_and_compile_model():
    model = tf.keras.Sequential(
        [
            tf.keras.layers.InputLayer(shape=(28, 28)),
            tf.keras.layers.Reshape(target_shape=(28, 28, 1)),
            tf.keras.layers.Conv2D(4, 3, activation="relu"),
            tf.keras.layers.Flatten(),
            tf.keras.layers.Dense(10),
        ]
    )
    model.compile(
        loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        optimizer=tf.keras.optimizers.SGD(learning_rate=0.01),
        metrics=["accuracy"],
    )
    return model


with strategy.scope():
    multi_worker_model = build_and_compile_model()

history = multi_worker_model.fit(make_dataset(global_batch_size), epochs=2, steps_per_epoch=8)
weights = [float(np.abs(weight).sum()) for weight in multi_worker_model.get_weights()]
print()
print(json.dumps({"losses": history.history["loss"], "weights": weights}))
