"""A Keras program in which something goes wrong on worker 1 of two, in the way that its argument names.

python fail_on_one_worker.py HOW [DIRECTORY]
"""

import json
import os
import sys

import keras
import numpy as np
import tensorflow as tf

how = sys.argv[1]
here = json.loads(os.environ["TF_CONFIG"])["task"]["index"]
strategy = tf.distribute.MultiWorkerMirroredStrategy()
generator = np.random.default_rng(3)
x = generator.normal(size=(96, 4)).astype("float32")
y = x.sum(axis=1, keepdims=True)


class Accident(keras.callbacks.Callback):
    def on_epoch_end(self, epoch, logs=None):
        if how == "on_epoch_end" and epoch == 1 and here == 1:
            raise ValueError("bad luck at the end of an epoch")
        if how == "save into a directory that is missing" and epoch == 1 and here == 1:
            self.model.save(os.path.join(sys.argv[2], "missing", "model.keras"))
        if how == "sys.exit" and epoch == 1 and here == 1:
            sys.exit(3)
        if how == "sys.exit without a code" and epoch == 1 and here == 1:
            sys.exit()


class AccidentInBatch(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        if batch == 5:
            raise ValueError("bad luck at the end of a batch")


def callbacks():
    if how == "on_train_batch_end of worker 1 only" and here == 1:
        return [AccidentInBatch()]
    return [keras.callbacks.TerminateOnNaN()] if how == "nan" else [Accident()]


def generated():
    for i in range(0, 96, 8):
        if here == 1 and i == 40:
            raise ValueError("bad luck in the input")
        yield x[i : i + 8], y[i : i + 8]


def without_sharding(dataset):
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
    return dataset.with_options(options)


def sharded_by_hand():
    """Ten batches on worker 0; on worker 1 five and a half."""

    def dataset_fn(context):
        size = 40 if context.input_pipeline_id == 0 else 22
        return tf.data.Dataset.from_tensor_slices((x[:size], y[:size])).batch(4)

    return strategy.distribute_datasets_from_function(dataset_fn)


def of_files(count):
    """A dataset of TFRecord files, of which each worker gets its share."""
    names = [os.path.join(sys.argv[2], f"{here}-{i}.tfrecord") for i in range(count)]
    for name in names:
        with tf.io.TFRecordWriter(name) as writer:
            for row, label in zip(x, y, strict=True):
                writer.write(np.concatenate([row, label]).tobytes())
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.FILE
    rows = tf.data.TFRecordDataset(names).map(lambda text: tf.reshape(tf.io.decode_raw(text, tf.float32), [5]))
    return rows.map(lambda row: (row[:4], row[4:])).batch(8).with_options(options)


def data():
    if how == "python generator":
        return generated()
    if how == "short shard":
        return sharded_by_hand()
    if how == "short dataset":
        size = 96 if here == 0 else 40
        return without_sharding(tf.data.Dataset.from_tensor_slices((x[:size], y[:size])).batch(8))
    if how == "short dataset that claims to be infinite":
        size = 960 if here == 0 else 40
        dataset = tf.data.Dataset.from_tensor_slices((x[:1], y[:1])).repeat(size).batch(8)
        return without_sharding(dataset.apply(tf.data.experimental.assert_cardinality(tf.data.INFINITE_CARDINALITY)))
    if how == "too few files":
        return of_files(1)
    return tf.data.Dataset.from_tensor_slices((x, y)).batch(8)


with strategy.scope():
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
    model.compile(keras.optimizers.SGD(1e30 if how == "nan" else 0.01), "mse")

steps = 12 if how == "short dataset that claims to be infinite" else None
history = model.fit(data(), epochs=3, steps_per_epoch=steps, callbacks=callbacks(), verbose=2)
print()
print(json.dumps({"loss": history.history["loss"], "weights": [w.tolist() for w in model.get_weights()]}))
