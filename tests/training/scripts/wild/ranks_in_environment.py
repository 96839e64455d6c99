"""A program for clusters whose scheduler numbers the tasks: PMI_RANK, PMI_SIZE and a list of nodes in the environment.

It makes TF_CONFIG of them itself. Each task fits y = 3 x on its share of the points; the gradient is averaged over all.
"""

import json
import os

import numpy as np
import tensorflow as tf

rank, size = int(os.environ["PMI_RANK"]), int(os.environ["PMI_SIZE"])
first, *others = os.environ["NODE_LIST"].split(",")
task = {"type": "worker", "index": rank - 1} if rank else {"type": "chief", "index": 0}
os.environ["TF_CONFIG"] = json.dumps({"cluster": {"chief": [first], "worker": others}, "task": task})

strategy = tf.distribute.MultiWorkerMirroredStrategy()
x = np.linspace(-1.0, 1.0, 32, dtype="float32")[rank::size]
y = 3.0 * x
with strategy.scope():
    slope = tf.Variable(0.0)


def gradient(x, y):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((slope * x - y) ** 2)
    return tape.gradient(loss, slope)


@tf.function
def step(x, y):
    slope.assign_sub(0.5 * strategy.reduce("MEAN", strategy.run(gradient, (x, y)), axis=None))


for _ in range(30):
    step(tf.constant(x), tf.constant(y))
print(f"rank {rank} of {size} on {os.environ['WORKER_NAME']}: slope {slope.numpy():.2f}")
