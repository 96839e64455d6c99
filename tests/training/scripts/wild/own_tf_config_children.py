"""A program that starts a gang of its own: two children, each with a `TF_CONFIG` that it sets in itself."""

import json
import multiprocessing
import os
import socket


def free_port():
    with socket.socket() as probe:
        probe.bind(("localhost", 0))
        return probe.getsockname()[1]


def train(index, workers):
    os.environ["TF_CONFIG"] = json.dumps({"cluster": {"worker": workers}, "task": {"type": "worker", "index": index}})
    import tensorflow as tf

    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    total = strategy.reduce(tf.distribute.ReduceOp.SUM, strategy.run(lambda: tf.constant(1.0)), axis=None)
    own = json.loads(os.environ["TF_CONFIG"])["cluster"]["worker"] == workers
    print(
        f"child {strategy.cluster_resolver.task_id} sum {float(total)} in its own cluster {own}\n", end="", flush=True
    )


if __name__ == "__main__":
    os.environ["TF_NUM_INTEROP_THREADS"] = "2"
    workers = [f"localhost:{free_port()}" for _ in range(2)]
    spawn = multiprocessing.get_context("spawn")
    children = [spawn.Process(target=train, args=(index, workers)) for index in range(2)]
    for child in children:
        child.start()
    for child in children:
        child.join()
    raise SystemExit(max(child.exitcode for child in children))
