"""Subclassed models with a `train_step` of their own.

The first has metrics of its own; it is fitted, changed, fitted again until the loss is NaN. The second one, with two
optimizers, is never called: it has no `call`.
"""

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


class GAN(keras.Model):
    def __init__(self, discriminator, generator):
        super().__init__()
        self.discriminator, self.generator = discriminator, generator
        self.d_loss, self.g_loss = keras.metrics.Mean(name="d_loss"), keras.metrics.Mean(name="g_loss")

    def compile(self, d_optimizer, g_optimizer, loss_fn):
        super().compile()
        self.d_optimizer, self.g_optimizer, self.loss_fn = d_optimizer, g_optimizer, loss_fn

    @property
    def metrics(self):
        return [self.d_loss, self.g_loss]

    def train_step(self, real):
        count = tf.shape(real)[0]
        noise = tf.random.normal((count, 3))
        labels = tf.concat([tf.ones((count, 1)), tf.zeros((count, 1))], axis=0)
        with tf.GradientTape() as tape:
            d_loss = self.loss_fn(labels, self.discriminator(tf.concat([self.generator(noise), real], axis=0)))
        weights = self.discriminator.trainable_weights
        self.d_optimizer.apply_gradients(zip(tape.gradient(d_loss, weights), weights, strict=True))
        with tf.GradientTape() as tape:
            g_loss = self.loss_fn(tf.zeros((count, 1)), self.discriminator(self.generator(noise)))
        weights = self.generator.trainable_weights
        self.g_optimizer.apply_gradients(zip(tape.gradient(g_loss, weights), weights, strict=True))
        self.d_loss.update_state(d_loss)
        self.g_loss.update_state(g_loss)
        return {"d_loss": self.d_loss.result(), "g_loss": self.g_loss.result()}


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

with strategy.scope():
    discriminator = keras.Sequential([keras.Input((12,)), keras.layers.Dense(8), keras.layers.Dense(1)])
    generator = keras.Sequential([keras.Input((3,)), keras.layers.Dense(12)])
    gan = GAN(discriminator, generator)
    cross_entropy = keras.losses.BinaryCrossentropy(from_logits=True)
    gan.compile(keras.optimizers.Adam(0.001), keras.optimizers.Adam(0.001), cross_entropy)
fourth = gan.fit(data, epochs=2, verbose=2)
print("gan:", sorted(fourth.history), int(gan.g_optimizer.iterations.numpy()), "steps")
print("epochs:", first.epoch, second.epoch, len(third.epoch))
