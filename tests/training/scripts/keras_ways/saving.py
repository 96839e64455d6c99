"""Saving on all workers as the tutorials do it, and loading with and without a strategy.

What the chief saves is read by `python -m keras_ways.read`, in a process of its own.
"""

import shutil

import keras

from keras_ways.samples import GLOBAL_BATCH, features, few, regressor, targets, unseen
from keras_ways.world import outcome, predictions, way


def path_to_write(here, name):
    """The path for the chief, one of its own for any other worker."""
    directory = here.shared if here.is_chief else temporary(here)
    directory.mkdir(parents=True, exist_ok=True)
    return directory / name


def temporary(here):
    return here.shared.parent / f"{here.name}-temporary-{here.index}"


def remove_temporary(here):
    if not here.is_chief:
        shutil.rmtree(temporary(here))


def trained(here):
    model = regressor(here, lambda: keras.optimizers.Adam(0.05), layers=[lambda: keras.layers.Dense(3, "tanh")])
    return model, model.fit(few(4), epochs=1, verbose=0)


def saved(here, model, fit, *saves):
    """Save on all workers, and train on."""
    for save, name in saves:
        save(path_to_write(here, name))
    remove_temporary(here)
    answers = predictions(model, unseen, batch_size=GLOBAL_BATCH)
    return outcome(model, fit, model.fit(few(2), epochs=1, verbose=0), predict=answers)


@way(worlds="1 2 2x2")
def save_as_keras_file(here):
    model, fit = trained(here)
    return saved(here, model, fit, (model.save, "model.keras"))


@way(worlds="1 2")
def save_weights(here):
    model, fit = trained(here)
    return saved(here, model, fit, (model.save_weights, "model.weights.h5"))


@way(worlds="1 2")
def export(here):
    model, fit = trained(here)
    return saved(here, model, fit, (lambda path: model.export(path, verbose=False), "saved_model"))


@way()
def save_every_epoch_in_a_callback(here):
    """On the chief and on the others alike, as in a script that calls `model.save` itself."""

    class Saves(keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            self.model.save(path_to_write(here, "model.keras"))

    model = regressor(here)
    fit = model.fit(few(4), epochs=2, callbacks=[Saves()], verbose=0)
    remove_temporary(here)
    return outcome(model, fit, predict=predictions(model, unseen, batch_size=GLOBAL_BATCH))


@way(by_replicas=True)
def save_with_batch_normalization(here):
    """Compared with what the saved file answers; the statistics of replicas are those of `layers.py`."""
    model = regressor(here, layers=[lambda: keras.layers.BatchNormalization(momentum=0.5)])
    model.fit(few(4), epochs=1, verbose=0)
    model.save(path_to_write(here, "model.keras"))
    remove_temporary(here)
    return {"by_world": {"predict": predictions(model, unseen, batch_size=GLOBAL_BATCH)}}


def stored(here):
    """A trained model in a file of this worker, made without any strategy."""
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3, activation="tanh"), keras.layers.Dense(1)])
    model.compile(keras.optimizers.Adam(0.05), "mse", metrics=["mae"])
    model.train_on_batch(features[:12], targets[:12])
    path = temporary(here)
    path.mkdir(parents=True, exist_ok=True)
    model.save(path / "stored.keras")
    model.save_weights(path / "stored.weights.h5")
    return path


@way()
def load_under_the_scope_and_evaluate_predict_fit(here):
    path = stored(here)
    with here.scope():
        model = keras.models.load_model(path / "stored.keras")
    evaluated = model.evaluate(features[:31], targets[:31], batch_size=GLOBAL_BATCH, verbose=0)
    answers = predictions(model, unseen[:25], batch_size=GLOBAL_BATCH)
    return outcome(model, model.fit(few(4), epochs=1, verbose=0), evaluate=evaluated, predict=answers)


@way()
def load_weights_under_the_scope(here):
    path = stored(here)
    model = regressor(here, layers=[lambda: keras.layers.Dense(3, "tanh")])
    model.load_weights(path / "stored.weights.h5")
    return outcome(model, model.fit(few(4), epochs=1, verbose=0))


@way()
def clone_and_set_weights(here):
    model, first = trained(here)
    with here.scope():
        copy = keras.models.clone_model(model)
        copy.set_weights(model.get_weights())
        copy.compile("sgd", "mse")
    return outcome(copy, first, copy.fit(few(4), epochs=1, verbose=0))
