"""Metrics with state: exact over all samples, at the end of epochs and in the logs of batches."""

import keras

from keras_ways.samples import classes, classifier, dataset, features, few, signs, unseen  # noqa: F401
from keras_ways.world import Batches, floats, outcome, plain, way


class LargestError(keras.metrics.Metric):
    """A metric of its own: the sum of squares and how often it was more than one, in an integer."""

    def __init__(self, name="largest", **how):
        super().__init__(name=name, **how)
        self.total = self.add_variable(shape=(), initializer="zeros", name="total")
        self.count = self.add_variable(shape=(), initializer="zeros", dtype="int32", name="count")

    def update_state(self, y_true, y_pred, sample_weight=None):
        squares = keras.ops.square(keras.ops.cast(y_true, "float32") - y_pred)
        self.total.assign_add(keras.ops.sum(squares))
        self.count.assign_add(keras.ops.sum(keras.ops.cast(squares > 0.3, "int32")))

    def result(self):
        return self.total / (1.0 + keras.ops.cast(self.count, "float32"))


def binary(here, **how):
    with here.scope():
        model = keras.Sequential([keras.layers.Dense(3, activation="tanh"), keras.layers.Dense(1, "sigmoid")])
        model.compile(
            "sgd",
            "binary_crossentropy",
            metrics=[
                keras.metrics.AUC(name="auc"),
                keras.metrics.AUC(name="pr", curve="PR", num_thresholds=20),
                keras.metrics.Precision(name="precision"),
                keras.metrics.F1Score(name="f1", threshold=0.5),
                LargestError(),
            ],
            **how,
        )
    return model


@way(worlds="1 2")
def auc_precision_f1_and_an_own_metric(here):
    model = binary(here)
    data = dataset(features, signs)
    fit = model.fit(data, epochs=2, validation_data=dataset(features[:31], signs[:31]), verbose=0)
    result = outcome(model, fit, evaluate=floats(model.evaluate(features[:31], signs[:31], batch_size=6, verbose=0)))
    return result | {"results": plain(model.get_metrics_result())}


@way()
def own_metric_in_the_logs_of_batches(here):
    model = binary(here)
    batches = Batches()
    fit = model.fit(few(4, (features, signs)), epochs=2, callbacks=[batches], verbose=0)
    return outcome(model, fit, batches=batches.seen)


@way()
def own_metric_in_the_logs_of_executions(here):
    model = binary(here, steps_per_execution=3)
    batches = Batches()
    fit = model.fit(few(4, (features, signs)), epochs=2, callbacks=[batches], verbose=0)
    return outcome(model, fit, batches=batches.seen)


@way()
def top_k_and_confusion(here):
    model = classifier(
        here,
        metrics=[
            keras.metrics.SparseTopKCategoricalAccuracy(2, name="top2"),
            "sparse_categorical_accuracy",
            keras.metrics.MeanMetricWrapper(lambda y, p: keras.ops.max(p, axis=-1), name="sure"),
        ],
    )
    data = dataset(features[:43], classes[:43])
    evaluated = model.evaluate(data, verbose=0, return_dict=True)
    return outcome(model, model.fit(few(4, (features, classes)), verbose=0), evaluate=evaluated)


@way()
def metrics_of_a_layer(here):
    class Watched(keras.layers.Layer):
        def __init__(self):
            super().__init__()
            self.mean = keras.metrics.Mean(name="mean_of_inputs")

        def call(self, inputs):
            self.mean.update_state(inputs)
            return inputs

    with here.scope():
        model = keras.Sequential([Watched(), keras.layers.Dense(1)])
        model.compile("sgd", "mse")
    fit = model.fit(few(4), epochs=2, verbose=0)
    return outcome(model, fit)


@way(by_replicas=True)
def metrics_with_an_uneven_last_batch(here):
    model = binary(here)
    data = dataset(features[:37], signs[:37])
    fit = model.fit(data, epochs=2, validation_data=data, verbose=0)
    return outcome(model, fit)
