"""Optimizers and what they can do besides."""

import keras
import numpy as np

from keras_ways.samples import GLOBAL_BATCH, classes, classifier, dataset, features, few, regressor, targets
from keras_ways.world import number_in, outcome, way, weights


def trained(here, optimizer, steps=5, **how):
    model = regressor(here, optimizer, **how)
    return outcome(model, model.fit(few(steps), epochs=2, verbose=0))


@way()
def many_optimizers(here):
    makers = {
        "Adam": lambda: keras.optimizers.Adam(0.05, amsgrad=True),
        "AdamW": lambda: keras.optimizers.AdamW(0.05, weight_decay=0.1),
        "RMSprop": lambda: keras.optimizers.RMSprop(0.05, centered=True),
        "Lion": lambda: keras.optimizers.Lion(0.01),
        "Ftrl": lambda: keras.optimizers.Ftrl(0.05),
    }
    return {name: trained(here, make, steps=3) for name, make in makers.items()}


@way()
def learning_rate_schedule(here):
    decay = keras.optimizers.schedules.ExponentialDecay(0.1, decay_steps=3, decay_rate=0.5, staircase=True)
    return trained(here, lambda: keras.optimizers.SGD(decay))


@way(by_replicas=True)
def clipped_by_norm(here):
    """Keras clips a replica's gradients before they are summed."""
    return trained(here, lambda: keras.optimizers.SGD(0.1, clipnorm=0.3))


@way(by_replicas=True)
def clipped_by_global_norm(here):
    return trained(here, lambda: keras.optimizers.SGD(0.1, global_clipnorm=0.3))


@way(by_replicas=True)
def clipped_by_value(here):
    return trained(here, lambda: keras.optimizers.SGD(0.1, clipvalue=0.2))


@way(worlds="1 2x2")
def gradient_accumulation_that_does_not_divide(here):
    return trained(here, lambda: keras.optimizers.Adam(0.1, gradient_accumulation_steps=3), steps=5)


@way()
def gradient_accumulation_with_steps_per_execution(here):
    return trained(
        here,
        lambda: keras.optimizers.SGD(0.1, gradient_accumulation_steps=3),
        steps=5,
        steps_per_execution=4,
    )


@way()
def moving_average_of_weights(here):
    return trained(here, lambda: keras.optimizers.SGD(0.1, use_ema=True, ema_momentum=0.8))


@way()
def moving_average_that_overwrites(here):
    return trained(
        here, lambda: keras.optimizers.Adam(0.1, use_ema=True, ema_momentum=0.8, ema_overwrite_frequency=3), steps=5
    )


@way()
def mixed_float16(here):
    """The loss scale that Keras adds begins too large, and is halved twice. Stock MirroredStrategy ends at NaN here."""
    keras.mixed_precision.set_global_policy("mixed_float16")
    try:
        model = classifier(here, optimizer=lambda: "adam")
        fit = model.fit(few(5, (features, classes)), epochs=2, validation_data=few(2, (features, classes)), verbose=0)
        return outcome(model, fit, scale=number_in(model.optimizer.dynamic_scale))
    finally:
        keras.mixed_precision.set_global_policy("float32")


def scaled(here, inputs, **how):
    """Train with a loss scale that doubles after two good steps and halves after a bad one."""
    model = regressor(
        here,
        lambda: keras.optimizers.LossScaleOptimizer(
            keras.optimizers.SGD(0.05), initial_scale=8.0, dynamic_growth_steps=2
        ),
        **how,
    )
    model.fit(dataset(inputs, targets[: len(inputs)]), epochs=1, verbose=0)
    optimizer = model.optimizer
    return {
        "weights": weights(model),
        "scale": number_in(optimizer.dynamic_scale),
        "good_steps": number_in(optimizer.step_counter),
        "iterations": number_in(optimizer.inner_optimizer.iterations),
    }


@way()
def loss_scale_that_grows(here):
    return scaled(here, features[: 5 * GLOBAL_BATCH])


@way(worlds="2x2")
def loss_scale_with_infinite_gradients_on_one_replica(here):
    """A single row is infinite: only the replica that has it sees it, and all of them must skip that step."""
    inputs = np.array(features[: 6 * GLOBAL_BATCH])
    inputs[3 * GLOBAL_BATCH, 1] = np.inf
    return scaled(here, inputs)


@way()
def loss_scale_with_infinite_gradients_and_steps_per_execution(here):
    inputs = np.array(features[: 6 * GLOBAL_BATCH])
    inputs[3 * GLOBAL_BATCH, 1] = np.inf
    return scaled(here, inputs, steps_per_execution=4)
