"""A subclassed model with `train_step` and metrics of its own; fitted, changed, fitted again until the loss is NaN."""

import numpy as np
import tensorflow as tf
from tensorflow import keras


class Denoiser(keras.Model):
    def __init__(self):
        super().__init__()
        self.encoder = keras.layers.Dense(4, activation="relu")
        self.norm = keras.layers.BatchNormalization()
        self.decoder = keras.layers.Dense(12)
        self.loss_tracker = keras.metrics.Mean(name="loss")
        self.mae = keras.metrics.MeanAbsoluteError(name="mae")

    def call(self, x, training=False):
        return self.decoder(self.norm(self.encoder(x), training=training))

    def train_step(self, data):
        clean = data
        noisy = clean + tf.random.normal(tf.shape(clean), stddev=0.1)
        with tf.GradientTape() as tape:
            restored = self(noisy, training=True)
            loss = keras.ops.mean(keras.ops.square(clean - restored))
        gradients = tape.gradient(loss, self.trainable_variables)
        self.optimizer.apply_gradients(zip(gradients, self.trainable_variables, strict=True))
        self.loss_tracker.update_state(loss)
        self.mae.update_state(clean, restored)
        return {metric.name: metric.result() for metric in self.metrics}

    @property
    def metrics(self):
        return [self.loss_tracker, self.mae]


strategy = tf.distribute.MultiWorkerMirroredStrategy()
with strategy.scope():
    model = Denoiser()
    model.compile(optimizer=keras.optimizers.Adam(0.01))

data = tf.data.Dataset.from_tensor_slices(np.random.RandomState(0).rand(128, 12).astype("float32")).batch(32)
first = model.fit(data, epochs=2, verbose=2)

model.optimizer.learning_rate = 0.001
model.encoder.trainable = False
second = model.fit(data.take(2), epochs=4, initial_epoch=2, verbose=2)

with strategy.scope():
    model.compile(optimizer=keras.optimizers.SGD(1e30))
third = model.fit(data.repeat(), epochs=5, steps_per_epoch=8, callbacks=[keras.callbacks.TerminateOnNaN()], verbose=2)
print("epochs:", first.epoch, second.epoch, len(third.epoch))
