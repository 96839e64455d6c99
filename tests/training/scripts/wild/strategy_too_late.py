"""Looks at TensorFlow before it makes its strategy, which multi-worker programs must not."""

import numpy as np
import tensorflow as tf

images = tf.convert_to_tensor(np.random.rand(64, 4), dtype=tf.float32)
labels = tf.reduce_sum(images, axis=1)
print("training on", images.shape)

strategy = tf.distribute.MultiWorkerMirroredStrategy()
with strategy.scope():
    model = tf.keras.Sequential([tf.keras.Input((4,)), tf.keras.layers.Dense(1)])
    model.compile("adam", "mse")
model.fit(images, labels, epochs=1)
