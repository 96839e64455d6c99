"""Trains small Keras models in the ways people do, with several workers or alone, and writes what came out as JSON.

python many_ways.py RESULT.json
"""

import json
import os
import sys
from pathlib import Path

import tensorflow as tf

alone = "TF_CONFIG" not in os.environ
strategy = tf.distribute.get_strategy() if alone else tf.distribute.MultiWorkerMirroredStrategy()

import keras  # noqa: E402
import numpy as np  # noqa: E402

GLOBAL_BATCH = 24
rng = np.random.default_rng(7)
features = rng.normal(size=(240, 6)).astype("float32")
labels = (features.sum(axis=1) > 0).astype("int32")
targets = features[:, :1] * 2 - features[:, 1:2]
unseen = rng.normal(size=(50, 6)).astype("float32")  # does not divide into global batches, nor by 2 or 3


def dataset(*arrays):
    return tf.data.Dataset.from_tensor_slices(arrays).batch(GLOBAL_BATCH)


def classifier(**how):
    """A Sequential model of unknown input shape."""
    with strategy.scope():
        model = keras.Sequential(
            [keras.layers.Dense(8, activation="relu"), keras.layers.Dense(2, activation="softmax")]
        )
        model.compile(
            optimizer=keras.optimizers.Adam(0.01), loss="sparse_categorical_crossentropy", metrics=["accuracy"], **how
        )
    return model


def outcome(model, history, **more):
    return {
        "history": {name: [float(value) for value in values] for name, values in history.history.items()},
        "weights": np.concatenate([w.ravel() for w in model.get_weights()]).tolist(),
        **more,
    }


def datasets_validation_evaluate_predict():
    model = classifier()
    data = dataset(features, labels)
    history = model.fit(data, epochs=3, validation_data=dataset(features[:96], labels[:96]), verbose=2)
    evaluated = model.evaluate(data, verbose=0)
    return outcome(model, history, evaluate=evaluated, predict=model.predict(unseen, batch_size=GLOBAL_BATCH).tolist())


def arrays_and_steps_per_execution():
    model = classifier(steps_per_execution=4)  # ten steps an epoch: 4, 4 and 2
    history = model.fit(features, labels, batch_size=GLOBAL_BATCH, epochs=3, shuffle=False, verbose=0)
    evaluated = model.evaluate(features, labels, batch_size=GLOBAL_BATCH, verbose=0)
    return outcome(model, history, evaluate=evaluated, predict=model.predict(unseen, batch_size=GLOBAL_BATCH).tolist())


def steps_per_execution_of_unknown_length():
    model = classifier(steps_per_execution=4)
    unknown = dataset(features, labels).filter(lambda *_: True)
    return outcome(model, model.fit(unknown, epochs=2, verbose=0))


def generator():
    def batches():
        while True:
            for start in range(0, len(features), GLOBAL_BATCH):
                yield features[start : start + GLOBAL_BATCH], labels[start : start + GLOBAL_BATCH]

    model = classifier()
    return outcome(model, model.fit(batches(), steps_per_epoch=10, epochs=2, verbose=0))


def dict_inputs_two_outputs_sample_weight():
    with strategy.scope():
        left, right = keras.Input((3,), name="left"), keras.Input((3,), name="right")
        hidden = keras.layers.Dense(8, activation="tanh")(keras.layers.Concatenate()([left, right]))
        outputs = {
            "kind": keras.layers.Dense(1, activation="sigmoid", name="kind")(hidden),
            "size": keras.layers.Dense(1, name="size")(hidden),
        }
        model = keras.Model({"left": left, "right": right}, outputs)
        model.compile(
            optimizer=keras.optimizers.SGD(0.05),
            loss={"kind": "binary_crossentropy", "size": "mse"},
            metrics={"kind": [keras.metrics.AUC()], "size": ["mae"]},
        )
    inputs = {"left": features[:, :3], "right": features[:, 3:]}
    wanted = {"kind": labels.reshape(-1, 1).astype("float32"), "size": targets}
    weights = np.linspace(0.5, 1.5, len(features)).astype("float32")
    history = model.fit(dataset(inputs, wanted, {"kind": weights, "size": weights}), epochs=2, verbose=0)
    predicted = model.predict({"left": unseen[:, :3], "right": unseen[:, 3:]}, batch_size=GLOBAL_BATCH)
    return outcome(model, history, predict={name: values.tolist() for name, values in predicted.items()})


class OwnTrainStep(keras.Model):
    """A subclassed model whose `train_step` returns numbers of its own."""

    def __init__(self):
        super().__init__()
        self.dense = keras.layers.Dense(1)

    def call(self, inputs):
        return self.dense(inputs)

    def train_step(self, data):
        x, y = data
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(self(x, training=True) - y))
            scaled = loss / tf.distribute.get_strategy().num_replicas_in_sync
        self.optimizer.apply_gradients(
            zip(tape.gradient(scaled, self.trainable_variables), self.trainable_variables, strict=True)
        )
        return {"squared": loss, "rows_per_replica": tf.shape(x)[0], "replicas": 1.0}


def own_train_step():
    with strategy.scope():
        model = OwnTrainStep()
        model.compile(optimizer=keras.optimizers.SGD(0.1))
    result = outcome(model, model.fit(dataset(features, targets), epochs=2, verbose=0))
    result["history"].pop("rows_per_replica")
    return result


def train_on_batch():
    model = classifier()
    losses = [model.train_on_batch(features[:GLOBAL_BATCH], labels[:GLOBAL_BATCH])[0] for _ in range(5)]
    return {"losses": [float(loss) for loss in losses], "weights": model.get_weights()[0].ravel().tolist()}


def run_eagerly():
    model = classifier(run_eagerly=True, steps_per_execution=2)
    return outcome(model, model.fit(dataset(features[:72], labels[:72]), epochs=1, verbose=0))


def batch_normalization():
    with strategy.scope():
        layers = [keras.layers.BatchNormalization(momentum=0.9), keras.layers.Dropout(0.3), keras.layers.Dense(1)]
        model = keras.Sequential(layers)
        model.compile(optimizer="adam", loss="mse")
    result = outcome(model, model.fit(dataset(features, targets), epochs=2, verbose=0))
    # What a layer sees of its batch, and what it drops, depends on the number of replicas. The mean of means does not.
    return {"moving_mean": np.asarray(layers[0].moving_mean).tolist(), "by_replicas": result}


def one_way(way):
    keras.backend.clear_session()
    keras.utils.set_random_seed(1)
    return way()


WAYS = [
    datasets_validation_evaluate_predict,
    arrays_and_steps_per_execution,
    steps_per_execution_of_unknown_length,
    generator,
    dict_inputs_two_outputs_sample_weight,
    own_train_step,
    train_on_batch,
    run_eagerly,
    batch_normalization,
]

wanted = sys.argv[2:] or [way.__name__ for way in WAYS]
results = {way.__name__: one_way(way) for way in WAYS if way.__name__ in wanted}
Path(sys.argv[1]).write_text(json.dumps(results))
