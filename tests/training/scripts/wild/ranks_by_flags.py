"""A program in the style of TensorFlow 1: who it is and who the others are comes from flags, never from TF_CONFIG.

Each task fits y = 3 x on its share of the points; the gradient is averaged over all of them.
"""

import argparse

import numpy as np
import tensorflow as tf

parser = argparse.ArgumentParser()
parser.add_argument("--job_name", choices=["chief", "worker"], required=True)
parser.add_argument("--task_index", type=int, required=True)
parser.add_argument("--chief_hosts", required=True)
parser.add_argument("--worker_hosts", required=True)
flags = parser.parse_args()

hosts = {"chief": flags.chief_hosts.split(","), "worker": flags.worker_hosts.split(",")}
resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(
    tf.train.ClusterSpec(hosts), task_type=flags.job_name, task_id=flags.task_index, rpc_layer="grpc"
)
strategy = tf.distribute.MultiWorkerMirroredStrategy(cluster_resolver=resolver)
workers = strategy.num_replicas_in_sync
x = np.linspace(-1.0, 1.0, 32, dtype="float32")[flags.task_index :: workers]
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
print(f"{flags.job_name} {flags.task_index} of {workers}: slope {slope.numpy():.2f}")
