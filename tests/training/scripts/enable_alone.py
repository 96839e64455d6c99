"""Calls `enable()` of the package named, and trains with one worker and with two devices of one process.

python enable_alone.py PACKAGE
"""

import sys
from importlib import import_module

import tensorflow as tf

tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 2
)
strategies = tf.distribute.MultiWorkerMirroredStrategy(), tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])

import keras  # noqa: E402

assert import_module(sys.argv[1]).enable()

for strategy in strategies:
    with strategy.scope():
        model = keras.Sequential([keras.layers.Input((2,)), keras.layers.Dense(1)])
        model.compile("sgd", "mse")
    data = tf.data.Dataset.from_tensor_slices((tf.ones((8, 2)), tf.ones((8, 1)))).batch(4)
    assert model.fit(data, epochs=1, verbose=0).history["loss"][0] > 0
