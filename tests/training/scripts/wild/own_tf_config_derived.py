"""A program of the time before chiefs: it turns the chief that it is given into the first of the workers.

Then it takes `TF_CONFIG` away, and each process goes on alone.
"""

import json
import os

import tensorflow as tf

config = json.loads(os.environ["TF_CONFIG"])
workers = [*config["cluster"].pop("chief"), *config["cluster"]["worker"]]
index = 0 if config["task"]["type"] == "chief" else config["task"]["index"] + 1
os.environ["TF_CONFIG"] = json.dumps({"cluster": {"worker": workers}, "task": {"type": "worker", "index": index}})

together = tf.distribute.MultiWorkerMirroredStrategy()
total = together.reduce(tf.distribute.ReduceOp.SUM, together.run(lambda: tf.constant(1.0)), axis=None)
print("worker", together.cluster_resolver.task_id, "of", together.num_replicas_in_sync, "sum", float(total))

del os.environ["TF_CONFIG"]
resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
print("alone:", resolver.cluster_spec().as_dict(), "TF_CONFIG" in os.environ)
