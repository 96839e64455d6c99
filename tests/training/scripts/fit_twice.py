"""A plain Keras program: trains one model step by step and another one 50 steps at a time; tells what Keras told it.

python fit_twice.py [SECONDS_A_BATCH]
"""

import json
import sys
import time

import keras
import numpy as np
import tensorflow as tf

seconds_a_batch = float(sys.argv[1]) if len(sys.argv) > 1 else 0
strategy = tf.distribute.MultiWorkerMirroredStrategy()


def batches(count):
    generator = np.random.default_rng(5)
    for _ in range(count):
        time.sleep(seconds_a_batch)
        x = generator.normal(size=(12, 4)).astype("float32")
        yield x, x.sum(axis=1, keepdims=True)


def dataset(count):
    signature = (tf.TensorSpec((12, 4), tf.float32), tf.TensorSpec((12, 1), tf.float32))
    return tf.data.Dataset.from_generator(lambda: batches(count), output_signature=signature).apply(
        tf.data.experimental.assert_cardinality(count)
    )


def trained(steps_per_execution):
    with strategy.scope():
        model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
        model.compile("sgd", "mse", metrics=["mae"], steps_per_execution=steps_per_execution)
    count = 3 if seconds_a_batch else 120
    return model.fit(dataset(count), validation_data=dataset(3), epochs=2, verbose=2).history


print()
print(json.dumps({str(steps_per_execution): trained(steps_per_execution) for steps_per_execution in (1, 50)}))
