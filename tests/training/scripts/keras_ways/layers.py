"""Layers with state, with chance, and with losses of their own."""

import keras
import numpy as np
import tensorflow as tf

from keras_ways.samples import GLOBAL_BATCH, dataset, features, few, regressor, targets, unseen
from keras_ways.world import outcome, predictions, way


class AveragesReplicas(keras.callbacks.Callback):
    """Gives every replica the mean of what the replicas have, before validation and at the end of an epoch.

    Keras 3 under MirroredStrategy reads the moving statistics of the first replica, and lets those of the others
    drift. Keras 2 averaged them, as the fix does: what is left of this difference is made up for here, by hand.
    """

    def on_test_begin(self, logs=None):
        for layer in self.model._flatten_layers():
            if isinstance(layer, keras.layers.BatchNormalization):
                for variable in (layer.moving_mean, layer.moving_variance):
                    average(variable.value)

    def on_epoch_end(self, epoch, logs=None):
        self.on_test_begin()


def average(variable):
    if isinstance(variable, tf.distribute.DistributedValues):
        mean = np.mean([copy.numpy() for copy in variable.values], axis=0)
        for copy in variable.values:
            copy.assign(mean)


def averaging(here):
    return [AveragesReplicas()] if isinstance(here.strategy, tf.distribute.MirroredStrategy) else []


def normalized(here, momentum=0.8, steps=4, more=(), synchronized=False, **how):
    layers = [lambda: keras.layers.BatchNormalization(momentum=momentum, synchronized=synchronized), *more]
    model = regressor(here, layers=layers, **how)
    fit = model.fit(few(steps), epochs=2, validation_data=few(2), callbacks=averaging(here), verbose=0)
    return outcome(
        model,
        fit,
        evaluate=model.evaluate(few(3), verbose=0),
        predict=predictions(model, unseen[:5], batch_size=GLOBAL_BATCH),
    )


@way(by_replicas=True, worlds="1 2 3 2x2")
def batch_normalization(here):
    return normalized(here)


@way(by_replicas=True)
def batch_normalization_with_steps_per_execution(here):
    return normalized(here, steps_per_execution=here.steps_per_execution(3))


@way(by_replicas=True)
def batch_normalization_without_validation(here):
    model = regressor(here, layers=[lambda: keras.layers.BatchNormalization(momentum=0.8)])
    fit = model.fit(few(4), epochs=2, callbacks=averaging(here), verbose=0)
    return outcome(model, fit)


@way()
def synchronized_batch_normalization(here):
    return normalized(here, synchronized=True)


@way(by_replicas=True, worlds="1 2 3")
def dropout(here):
    return normalized(here, more=[lambda: keras.layers.Dense(4), lambda: keras.layers.Dropout(0.4, seed=5)])


@way(by_replicas=True)
def dropout_and_noise_with_the_global_seed(here):
    layers = [
        lambda: keras.layers.GaussianNoise(0.1),
        lambda: keras.layers.Dense(4),
        lambda: keras.layers.Dropout(0.4),
    ]
    model = regressor(here, layers=layers)
    return outcome(model, model.fit(few(4), epochs=2, validation_data=few(2), verbose=0))


class Shaken(keras.layers.Layer):
    """A layer with a SeedGenerator of its own, and a counter that no gradient moves."""

    def __init__(self):
        super().__init__()
        self.seeds = keras.random.SeedGenerator(11)

    def build(self, shape):
        self.calls = self.add_weight(shape=(), initializer="zeros", trainable=False, name="calls")

    def call(self, inputs, training=False):
        if not training:
            return inputs
        self.calls.assign_add(1.0)
        return inputs + keras.random.normal(keras.ops.shape(inputs), stddev=0.1, seed=self.seeds)


@way(by_replicas=True)
def own_layer_with_seed_generator_and_counter(here):
    model = regressor(here, layers=[Shaken])
    fit = model.fit(few(4), epochs=2, validation_data=few(2), verbose=0)
    return outcome(model, fit, state=np.asarray(model.layers[0].seeds.state).tolist())


@way()
def regularizers_and_add_loss(here):
    class AddsLoss(keras.layers.Layer):
        def call(self, inputs):
            self.add_loss(0.1 * keras.ops.mean(keras.ops.square(inputs)))
            return inputs

    layers = [
        lambda: keras.layers.Dense(3, kernel_regularizer="l2", bias_regularizer=keras.regularizers.L1(0.1)),
        AddsLoss,
    ]
    model = regressor(here, layers=layers)
    return outcome(model, model.fit(few(4), epochs=2, validation_data=few(3), verbose=0))


@way()
def embedding(here):
    """Its gradients are of some rows only."""
    with here.scope():
        model = keras.Sequential([keras.Input((3,), dtype="int32"), keras.layers.Embedding(7, 2)])
        model.add(keras.layers.Flatten())
        model.add(keras.layers.Dense(1))
        model.compile(keras.optimizers.Adam(0.05), "mse")
    words = (np.abs(features[:48, :3]) * 3).astype("int32") % 7
    return outcome(model, model.fit(dataset(words, targets[:48]), epochs=2, verbose=0))


@way()
def convolution_and_recurrence(here):
    with here.scope():
        inputs = keras.Input((4, 1))
        convolved = keras.layers.Conv1D(2, 2, activation="relu")(inputs)
        model = keras.Model(inputs, keras.layers.Dense(1)(keras.layers.GRU(2)(convolved)))
        model.compile("adam", "mse")
    return outcome(model, model.fit(dataset(features[:36, :, None], targets[:36]), epochs=2, verbose=0))


@way()
def attention_and_layer_normalization(here):
    with here.scope():
        inputs = keras.Input((4, 1))
        wide = keras.layers.Dense(4)(inputs)
        attended = keras.layers.MultiHeadAttention(num_heads=2, key_dim=2)(wide, wide)
        pooled = keras.layers.GlobalAveragePooling1D()(keras.layers.LayerNormalization()(wide + attended))
        model = keras.Model(inputs, keras.layers.Dense(1)(pooled))
        model.compile("sgd", "mse")
    return outcome(model, model.fit(dataset(features[:36, :, None], targets[:36]), epochs=2, verbose=0))


@way()
def adapted_normalization_and_nested_frozen_model(here):
    with here.scope():
        normalization = keras.layers.Normalization()
        normalization.adapt(features)
        base = keras.Sequential([keras.Input((4,)), normalization, keras.layers.Dense(3, activation="tanh")])
        base.trainable = False
        model = keras.Sequential([base, keras.layers.Dense(1)])
        model.compile("sgd", "mse")
    return outcome(model, model.fit(few(4), epochs=2, verbose=0))


@way(by_replicas=True)
def frozen_batch_normalization_fine_tuned(here):
    """Transfer learning: a pretrained part whose statistics stay as they are."""
    with here.scope():
        normalization = keras.layers.BatchNormalization()
        base = keras.Sequential([keras.Input((4,)), normalization, keras.layers.Dense(3)])
        base.trainable = False
        inputs = keras.Input((4,))
        model = keras.Model(inputs, keras.layers.Dense(1)(base(inputs, training=False)))
        model.compile("sgd", "mse")
    first = model.fit(few(3), epochs=1, callbacks=averaging(here), verbose=0)
    with here.scope():
        base.trainable = True
        model.compile(keras.optimizers.SGD(0.001), "mse")
    return outcome(model, first, model.fit(few(3), epochs=1, callbacks=averaging(here), verbose=0))
