"""A program that sets its cluster by `os.putenv`, which Python's `os.environ`, and so TensorFlow, never sees."""

import json
import os

cluster = {"worker": ["node1:2222", "node2:2222"]}
os.putenv("TF_CONFIG", json.dumps({"cluster": cluster, "task": {"type": "worker", "index": 0}}))

import tensorflow as tf  # noqa: E402

strategy = tf.distribute.MultiWorkerMirroredStrategy()
total = strategy.reduce(tf.distribute.ReduceOp.SUM, strategy.run(lambda: tf.constant(1.0)), axis=None)
print("replicas", strategy.num_replicas_in_sync, "sum", float(total))
