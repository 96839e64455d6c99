"""Trains in every way, one after the other, and writes what came out of each to `DIRECTORY/INDEX/WAY.json`.

python -m keras_ways DIRECTORY {alone,mirrored,workers} DEVICES [--enable PACKAGE] [WAY...]
"""

import argparse
import faulthandler
import gc
import importlib
import json
import os
import sys
import time
import traceback
from pathlib import Path

import tensorflow as tf

SECONDS_A_WAY = 240  # then the stacks are shown and the process ends


def read_arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("directory", type=Path)
    parser.add_argument("strategy", choices=["alone", "mirrored", "workers"])
    parser.add_argument("devices", type=int)
    parser.add_argument("--enable", metavar="PACKAGE")
    parser.add_argument("ways", nargs="*")
    return parser.parse_intermixed_args()


def make_strategy(kind, devices):
    [cpu] = tf.config.list_physical_devices("CPU")
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * devices)
    if kind == "workers":
        use_all_logical_devices(devices)
        return tf.distribute.MultiWorkerMirroredStrategy()
    if kind == "mirrored":
        return tf.distribute.MirroredStrategy([f"CPU:{i}" for i in range(devices)])
    return tf.distribute.get_strategy()


def use_all_logical_devices(devices):
    """MultiWorkerMirroredStrategy takes all GPUs of a worker, but of its CPU devices only the first."""

    def as_gpus(self, resolver, worker):
        return tuple(f"{worker}/device:CPU:{i}" for i in range(devices)), "CPU"

    extended = importlib.import_module("tensorflow.python.distribute.collective_all_reduce_strategy")
    extended.CollectiveAllReduceExtended._initialize_local_devices = as_gpus


arguments = read_arguments()
strategy = make_strategy(arguments.strategy, arguments.devices)
processes = len(json.loads(os.environ.get("TF_CONFIG", "{}")).get("cluster", {}).get("worker", [0]))
assert strategy.num_replicas_in_sync == processes * arguments.devices

import keras  # noqa: E402

from keras_ways import callbacks, data, fitting, layers, metrics, optimizers, samples, saving  # noqa: E402, F401
from keras_ways.world import WAYS, World, index_of_worker  # noqa: E402

if arguments.enable:
    assert importlib.import_module(arguments.enable).enable()

keras.config.disable_traceback_filtering()  # it looks at the signature of every call of every layer while tracing
gc.freeze()  # what the imports left is not searched again between the ways
index = index_of_worker()
records = arguments.directory / str(index)
records.mkdir(parents=True, exist_ok=True)
own_disk = arguments.directory / f"disk-{index}"
own_disk.mkdir(exist_ok=True)
os.chdir(own_disk)

for name in arguments.ways or WAYS:
    record = records / f"{name}.json"
    record.write_text(json.dumps({"error": "did not end"}))
    print(f"way {name}", flush=True)
    faulthandler.dump_traceback_later(SECONDS_A_WAY, exit=True)
    keras.backend.clear_session()
    keras.utils.set_random_seed(1)
    started = time.process_time()
    try:
        outcome = WAYS[name](World(strategy, index, arguments.directory / "shared" / name, name))
        changed = samples.overwritten()
        if changed and arguments.strategy == "workers":
            raise AssertionError(f"the arrays of the program were overwritten: {', '.join(changed)}")
        record.write_text(json.dumps({"outcome": outcome, "processor_seconds": time.process_time() - started}))
    except Exception as error:
        traceback.print_exc()
        record.write_text(json.dumps({"error": f"{type(error).__name__}: {error}"}))
        sys.stdout.flush()
        if arguments.strategy == "workers":
            os._exit(1)  # as a program that ends with an exception; the peers may wait for this worker
    faulthandler.cancel_dump_traceback_later()
