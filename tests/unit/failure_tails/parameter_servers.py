"""A chief lets a worker add on a parameter server; a fault befalls the server or the chief."""

from __future__ import annotations

import argparse
import os
import signal
import time
from pathlib import Path

import tensorflow as tf

UNDER_WAY = Path("under_way")

parser = argparse.ArgumentParser()
parser.add_argument("--fault", required=True)
parser.add_argument("--culprit", help="for the recorder")
options = parser.parse_args()
resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()

if resolver.task_type in ("worker", "ps"):
    config = tf.compat.v1.ConfigProto(inter_op_parallelism_threads=4)
    server = tf.distribute.Server(
        resolver.cluster_spec(), job_name=resolver.task_type, task_index=resolver.task_id, config=config
    )
    if resolver.task_type == "ps" and options.fault == "ps_sigkill":
        while not UNDER_WAY.exists():
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGKILL)
    server.join()

strategy = tf.distribute.ParameterServerStrategy(resolver)
if options.fault == "ps_fit_keras_3":
    import keras

    with strategy.scope():
        model = keras.Sequential([keras.layers.Dense(1)])
        model.compile("sgd", "mse")
    model.fit(tf.data.Dataset.from_tensors((tf.ones([4, 2]), tf.ones([4, 1]))))

coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
with strategy.scope():
    total = tf.Variable(0.0, aggregation=tf.VariableAggregation.SUM)


@tf.function
def step() -> None:
    strategy.run(lambda: total.assign_add(1.0))


while True:
    coordinator.schedule(step)
    coordinator.join()
    if float(total) > 100:
        UNDER_WAY.touch()
