"""A program from an issue thread: `TF_CONFIG` set in the source, with the same index on whichever machine it runs.

As TensorFlow's tutorial has it, the variable is removed first and set only after TensorFlow has been imported.
"""

import json
import os

os.environ.pop("TF_CONFIG", None)
os.environ["CUDA_VISIBLE_DEVICES"] = "-1"

import numpy as np
import tensorflow as tf

os.environ["TF_CONFIG"] = json.dumps(
    {
        "cluster": {"worker": ["localhost:12345", "localhost:23456", "localhost:34567"]},
        "task": {"type": "worker", "index": 0},
    }
)
strategy = tf.distribute.MultiWorkerMirroredStrategy()
with strategy.scope():
    model = tf.keras.Sequential([tf.keras.Input((4,)), tf.keras.layers.Dense(2), tf.keras.layers.Dense(1)])
    model.compile(optimizer=tf.keras.optimizers.SGD(0.05), loss="mse")
inputs = np.linspace(-1.0, 1.0, 128, dtype="float32").reshape(32, 4)
history = model.fit(inputs, inputs.sum(axis=1), batch_size=8, epochs=2, verbose=0)

config = json.loads(os.environ["TF_CONFIG"])
print("replicas", strategy.num_replicas_in_sync, "of", len(config["cluster"]["worker"]), "workers")
print("I am worker", strategy.cluster_resolver.task_id, "and", config["task"]["index"])
print("learned", history.history["loss"][-1] < history.history["loss"][0])
