"""How models are trained, one after the other and over and over."""

import keras
import tensorflow as tf

from keras_ways.samples import (
    GLOBAL_BATCH,
    classes,
    classifier,
    dataset,
    features,
    few,
    regressor,
    targets,
    unseen,
    validation,
)
from keras_ways.world import floats, number_in, outcome, predictions, way, weights


def in_executions_of(here, steps, **how):
    model = classifier(here, steps_per_execution=steps, **how)
    fit = model.fit(dataset(features, classes), epochs=2, validation_data=validation(), verbose=0)
    return outcome(
        model,
        fit,
        evaluate=model.evaluate(features[:31], classes[:31], batch_size=6, verbose=0),
        iterations=number_in(model.optimizer.iterations),
    )


@way()
def steps_per_execution_1(here):
    return in_executions_of(here, 1)


@way(worlds="1 3")
def steps_per_execution_7(here):
    return in_executions_of(here, 7)


@way()
def steps_per_execution_50(here):
    return in_executions_of(here, 50)


@way()
def steps_per_execution_7_of_unknown_cardinality(here):
    model = classifier(here, steps_per_execution=7)
    unknown = dataset(features, classes).filter(lambda *_: True)
    fit = model.fit(unknown, epochs=2, validation_data=unknown, verbose=0)
    return outcome(model, fit, iterations=number_in(model.optimizer.iterations))


@way()
def steps_per_execution_5_of_repeated_data(here):
    model = classifier(here, steps_per_execution=5)
    data = dataset(features, classes).repeat()
    fit = model.fit(data, steps_per_epoch=8, epochs=2, verbose=0)
    return outcome(model, fit, iterations=number_in(model.optimizer.iterations))


@way()
def unrolled_steps_per_execution(here):
    model = classifier(here, steps_per_execution=6)
    model.unrolled_steps_per_execution = 3
    return outcome(model, model.fit(dataset(features, classes), epochs=2, verbose=0))


@way()
def jit_compile(here):
    model = classifier(here, jit_compile=True)
    fit = model.fit(few(4, (features, classes)), epochs=2, validation_data=validation(), verbose=0)
    return outcome(model, fit, predict=predictions(model, unseen[:25], batch_size=GLOBAL_BATCH))


@way(worlds="1 2")
def jit_compile_with_steps_per_execution(here):
    model = classifier(here, jit_compile=True, steps_per_execution=3)
    return outcome(model, model.fit(few(4, (features, classes)), epochs=2, verbose=0))


@way()
def run_eagerly(here):
    data = few(3, (features, classes))
    model = classifier(here, run_eagerly=True)
    fit = model.fit(data, validation_data=data, verbose=0)
    several = classifier(here, run_eagerly=True, steps_per_execution=2)
    return outcome(model, fit, several.fit(data, verbose=0), predict=predictions(model, unseen[:13]))


@way()
def on_batch(here):
    model = classifier(here)
    x, y = features[:GLOBAL_BATCH], classes[:GLOBAL_BATCH]
    return {
        "trained": [floats(model.train_on_batch(x, y)) for _ in range(3)],
        "weighed": model.train_on_batch(x, y, class_weight={0: 1.0, 1: 2.0, 2: 0.5}, return_dict=True),
        "tested": model.test_on_batch(x, y, return_dict=True),
        "predicted": model.predict_on_batch(unseen[:5]).tolist(),
        "weights": weights(model),
    }


class OwnSteps(keras.Model):
    """A subclassed model whose steps are its own; the numbers of `train_step` are no metrics of Keras."""

    def __init__(self):
        super().__init__()
        self.dense = keras.layers.Dense(1)
        self.error = keras.metrics.MeanAbsoluteError(name="error")

    @property
    def metrics(self):
        return [self.error]

    def call(self, inputs):
        return self.dense(inputs)

    def train_step(self, data):
        x, y = data
        with tf.GradientTape() as tape:
            predicted = self(x, training=True)
            loss = tf.reduce_mean(tf.square(predicted - y))
            scaled = loss / tf.distribute.get_strategy().num_replicas_in_sync
        gradients = tape.gradient(scaled, self.trainable_variables)
        self.optimizer.apply_gradients(zip(gradients, self.trainable_variables, strict=True))
        self.error.update_state(y, predicted)
        return {"error": self.error.result(), "squared": loss, "constant": 1.0}

    def test_step(self, data):
        x, y = data
        predicted = self(x, training=False)
        self.error.update_state(y, predicted)
        return {"error": self.error.result()}


@way(worlds="3")
def own_train_and_test_step(here):
    with here.scope():
        model = OwnSteps()
        model.compile(optimizer=keras.optimizers.SGD(0.1))
    fit = model.fit(few(5), epochs=2, validation_data=(features[:31], targets[:31]), verbose=0)
    return outcome(model, fit)


@way()
def own_train_step_with_steps_per_execution(here):
    with here.scope():
        model = OwnSteps()
        model.compile(optimizer=keras.optimizers.SGD(0.1), steps_per_execution=3)
    return outcome(model, model.fit(few(5), epochs=2, verbose=0))


class TrainStepOfTheGuide(keras.Model):
    """As the guide of Keras shows it: the loss and the metrics that `compile` was given."""

    def train_step(self, data):
        x, y = data
        with tf.GradientTape() as tape:
            predicted = self(x, training=True)
            loss = self.compute_loss(y=y, y_pred=predicted)
        gradients = tape.gradient(loss, self.trainable_variables)
        self.optimizer.apply(gradients, self.trainable_variables)
        for metric in self.metrics:
            if metric.name == "loss":
                metric.update_state(loss)
            else:
                metric.update_state(y, predicted)
        return {metric.name: metric.result() for metric in self.metrics}


@way(by_replicas=True)
def train_step_of_the_guide(here):
    """Its loss tracker is fed the loss of a replica, which Keras has divided by their number."""
    with here.scope():
        inputs = keras.Input((4,))
        model = TrainStepOfTheGuide(inputs, keras.layers.Dense(1)(inputs))
        model.compile(keras.optimizers.SGD(0.05), "mse", metrics=["mae"])
    return outcome(model, model.fit(few(5), epochs=2, verbose=0))


@way()
def own_losses(here):
    """A function, an object that sums (Keras leaves sums to the program), and a model's `compute_loss`."""

    class OwnLoss(keras.Model):
        def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
            return 2 * super().compute_loss(x, y, y_pred, sample_weight, training)

    def huber_like(y, predicted):
        return keras.ops.mean(keras.ops.log(1 + keras.ops.square(y - predicted)), axis=-1)

    with here.scope():
        inputs = keras.Input((4,))
        model = OwnLoss(inputs, keras.layers.Dense(1)(inputs))
    fits = []
    for loss in (huber_like, keras.losses.Huber(reduction="sum")):
        with here.scope():
            model.compile("sgd", loss)
        fits.append(model.fit(few(3), epochs=1, verbose=0))
    return outcome(model, *fits)


@way()
def subclassed_and_unbuilt(here):
    class Subclassed(keras.Model):
        def __init__(self):
            super().__init__()
            self.hidden = keras.layers.Dense(4, activation="relu")
            self.out = keras.layers.Dense(1)

        def build(self, shape):
            self.scale = self.add_weight(shape=(shape[-1],), initializer="ones", name="scale")
            super().build(shape)

        def call(self, inputs, training=False):
            return self.out(self.hidden(inputs * self.scale))

    with here.scope():
        model = Subclassed()
        model.compile("sgd", "mse", metrics=["mae"])
    return outcome(model, model.fit(few(5), epochs=2, validation_data=few(3), verbose=0))


@way()
def unbuilt_evaluated_first(here):
    model = classifier(here)
    evaluated = model.evaluate(validation(), verbose=0)
    return outcome(model, model.fit(few(4, (features, classes)), verbose=0), evaluate=evaluated)


@way()
def fit_again_and_again(here):
    """With the same data, with another learning rate, and with other data."""
    model = classifier(here)
    data = few(5, (features, classes))
    fits = [model.fit(data, epochs=1, validation_data=validation(), verbose=0) for _ in range(2)]
    evaluated = model.evaluate(data, verbose=0)
    model.optimizer.learning_rate = 0.01
    other = model.fit(data, epochs=1, verbose=0)
    arrays = model.fit(features[:48], classes[:48], batch_size=24, shuffle=False, epochs=1, verbose=0)
    return outcome(model, *fits, other, arrays, evaluate=evaluated)


@way()
def compiled_anew_between_fits(here):
    model = classifier(here)
    data = few(5, (features, classes))
    first = model.fit(data, epochs=1, verbose=0)
    with here.scope():
        model.layers[0].trainable = False
        model.compile(keras.optimizers.Adam(0.01), "sparse_categorical_crossentropy", steps_per_execution=4)
    return outcome(model, first, model.fit(data, epochs=2, verbose=0))


@way()
def two_models_in_turns(here):
    first, second = classifier(here), regressor(here)
    data = few(4, (features, classes))
    fits = [first.fit(data, verbose=0), second.fit(few(4), verbose=0), first.fit(data, verbose=0)]
    return {**outcome(first, *fits), "other": weights(second)}


@way()
def inside_the_scope(here):
    with here.scope():
        model = keras.Sequential([keras.layers.Dense(1)])
        model.compile("sgd", "mse")
        fit = model.fit(few(5), epochs=2, verbose=0)
        return outcome(model, fit, evaluate=model.evaluate(few(3), verbose=0))
