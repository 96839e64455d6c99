"""A chief and a worker fed by a Python generator; a question at the start, which nobody answers in a batch job."""

import sys

import numpy as np
import tensorflow as tf

if sys.stdin.readline().strip() == "gpu":
    tf.config.set_soft_device_placement(True)

strategy = tf.distribute.MultiWorkerMirroredStrategy()
resolver = strategy.cluster_resolver
print("I am", resolver.task_type, resolver.task_id)


def sequences():
    random = np.random.RandomState(3)
    while True:
        length = 12
        words = random.randint(1, 50, size=length)
        yield words.astype("int32"), np.float32(words.mean() > 25)


dataset = tf.data.Dataset.from_generator(
    sequences,
    output_signature=(tf.TensorSpec((12,), tf.int32), tf.TensorSpec((), tf.float32)),
).batch(16)
options = tf.data.Options()
options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
dataset = dataset.with_options(options)

with strategy.scope():
    model = tf.keras.Sequential(
        [
            tf.keras.layers.Embedding(50, 8),
            tf.keras.layers.Bidirectional(tf.keras.layers.LSTM(4)),
            tf.keras.layers.Dropout(0.2),
            tf.keras.layers.Dense(1),
        ]
    )
    model.compile(loss=tf.keras.losses.BinaryCrossentropy(from_logits=True), optimizer="rmsprop", metrics=["acc"])

history = model.fit(dataset, epochs=2, steps_per_epoch=6, validation_data=dataset, validation_steps=2, verbose=2)
if resolver.task_type == "chief":
    model.save("sentiment.keras")
print("epochs:", len(history.history["val_acc"]))
