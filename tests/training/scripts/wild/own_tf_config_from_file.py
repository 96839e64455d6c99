"""A loop of one's own, without Keras, in a cluster that a JSON file beside the program describes.

`python own_tf_config_from_file.py CLUSTER.json [INDEX]`
"""

import json
import os
import sys
from pathlib import Path

config = {"cluster": json.loads(Path(sys.argv[1]).read_text())}
config["task"] = {"type": "worker", "index": int(sys.argv[2]) if len(sys.argv) > 2 else 0}
os.environ.update({"TF_CONFIG": json.dumps(config)})

import tensorflow as tf  # noqa: E402

strategy = tf.distribute.MultiWorkerMirroredStrategy()
resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
with strategy.scope():
    weight = tf.Variable(0.0)


@tf.function
def step():
    def replica_step():
        gradient = 2.0 * (weight - 3.0)
        mean = tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.MEAN, gradient)
        weight.assign_sub(0.1 * mean)

    strategy.run(replica_step)


for _ in range(20):
    step()
learned = round(float(weight.numpy()), 2)
print("replicas", strategy.num_replicas_in_sync, "worker", resolver.task_id, "weight", learned)
