"""What data comes as."""

import keras
import numpy as np
import tensorflow as tf

from keras_ways.samples import (
    GLOBAL_BATCH,
    STEPS,
    classes,
    classifier,
    dataset,
    features,
    few,
    regressor,
    sample_weights,
    signs,
    targets,
    unseen,
    validation,
)
from keras_ways.world import outcome, predictions, way


@way(worlds="1 2 3 2x2")
def datasets_validate_evaluate_predict(here):
    model = classifier(here, lambda: keras.optimizers.Adam(0.05), hidden=[4])
    fit = model.fit(dataset(features, classes), epochs=2, validation_data=validation(), verbose=0)
    return outcome(
        model,
        fit,
        evaluate=model.evaluate(validation(), verbose=0),
        evaluate_dict=model.evaluate(dataset(features, classes), verbose=0, return_dict=True),
        predict=predictions(model, dataset(unseen)),
    )


@way()
def arrays_with_validation_split(here):
    model = classifier(here)
    fit = model.fit(
        features,
        classes,
        batch_size=GLOBAL_BATCH,
        epochs=2,
        shuffle=False,
        validation_split=0.3,
        verbose=0,
    )
    return outcome(
        model,
        fit,
        evaluate=model.evaluate(features[:31], classes[:31], batch_size=GLOBAL_BATCH, verbose=0),
        predict=[predictions(model, unseen[:n], batch_size=GLOBAL_BATCH) for n in (1, 25, 50)],
    )


@way()
def arrays_that_keras_shuffles(here):
    model = classifier(here)
    return outcome(model, model.fit(features[:60], classes[:60], batch_size=GLOBAL_BATCH, epochs=2, verbose=0))


@way(worlds="3")
def predict_one_and_25_samples(here):
    model = classifier(here)
    return {"predict": [predictions(model, unseen[:n], batch_size=GLOBAL_BATCH) for n in (1, 25)]}


@way(worlds="2x2")
def predict_50_samples_in_several_steps_an_execution(here):
    model = classifier(here, steps_per_execution=3)
    return {"predict": predictions(model, unseen, batch_size=GLOBAL_BATCH)}


@way()
def validation_in_steps_and_not_every_epoch(here):
    model = classifier(here)
    fit = model.fit(
        features[:48],
        classes[:48],
        batch_size=GLOBAL_BATCH,
        epochs=5,
        initial_epoch=1,
        shuffle=False,
        validation_data=(features[48:], classes[48:], sample_weights[48:]),
        validation_batch_size=6,
        validation_steps=3,
        validation_freq=2,
        verbose=0,
    )
    return outcome(model, fit, epochs=fit.epoch)


@way()
def shuffled_datasets(here):
    model = classifier(here)
    rows = tf.data.Dataset.from_tensor_slices((features, classes))
    return outcome(model, model.fit(rows.shuffle(40, seed=3).batch(GLOBAL_BATCH), epochs=2, verbose=0))


def endless_batches():
    while True:
        for start in range(0, len(features), GLOBAL_BATCH):
            yield features[start : start + GLOBAL_BATCH], classes[start : start + GLOBAL_BATCH]


def the_same_batch_endlessly():
    while True:
        yield features[:GLOBAL_BATCH], classes[:GLOBAL_BATCH]


@way()
def generators(here):
    model = classifier(here)
    fit = model.fit(
        endless_batches(),
        steps_per_epoch=7,
        epochs=2,
        validation_data=the_same_batch_endlessly(),  # how many are read ahead, and lost, is nobody's promise
        validation_steps=3,
        verbose=0,
    )
    return outcome(model, fit, predict=predictions(model, ((x,) for x in (unseen[:12], unseen[12:19]))))


@way(worlds="1 2")
def generator_of_views(here):
    """Slices of an array share its memory: TensorFlow must not compute in it, as it does under MirroredStrategy."""

    def views():
        for start in range(0, 60, GLOBAL_BATCH):
            rows = slice(start, start + GLOBAL_BATCH)
            yield features[rows], targets[rows], sample_weights[rows]

    of_keras, of_data = regressor(here), regressor(here)
    spec = tuple(tf.TensorSpec((None, *batch.shape[1:]), batch.dtype) for batch in (features, targets, sample_weights))
    data = tf.data.Dataset.from_generator(views, output_signature=spec)
    fits = [of_keras.fit(views(), verbose=0), of_data.fit(data, epochs=2, verbose=0)]
    return outcome(of_data, *fits, evaluate=of_data.evaluate(data, verbose=0))


class Slices(keras.utils.PyDataset):
    """Batches by index, the last one short."""

    def __len__(self):
        return 4

    def __getitem__(self, index):
        rows = slice(index * GLOBAL_BATCH, min((index + 1) * GLOBAL_BATCH, 43))
        return features[rows], classes[rows]


@way(by_replicas=True)
def py_datasets(here):
    model = classifier(here)
    fit = model.fit(Slices(), epochs=2, shuffle=False, verbose=0)
    threaded = model.fit(Slices(workers=2, max_queue_size=3), epochs=1, shuffle=False, verbose=0)
    return outcome(model, fit, threaded, evaluate=model.evaluate(Slices(), verbose=0))


@way()
def datasets_of_unknown_and_infinite_length(here):
    model = classifier(here)
    unknown = dataset(features, classes).filter(lambda *_: True)
    infinite = dataset(features, classes).repeat()
    fits = [
        model.fit(unknown, epochs=2, validation_data=unknown, verbose=0),
        model.fit(infinite, steps_per_epoch=7, epochs=3, validation_data=infinite, validation_steps=4, verbose=0),
        model.fit(dataset(features, classes), steps_per_epoch=4, epochs=2, verbose=0),
    ]
    return outcome(model, *fits)


@way()
def data_ends_before_steps_per_epoch(here):
    model = classifier(here)
    return outcome(model, model.fit(few(4, (features, classes)), steps_per_epoch=6, epochs=1, verbose=0))


@way()
def remainder_dropped(here):
    model = classifier(here)
    data = dataset(features[:67], classes[:67], drop_remainder=True)
    return outcome(model, model.fit(data, epochs=2, validation_data=data, verbose=0))


@way(by_replicas=True, worlds="1 2 3")
def uneven_last_batch_of_one_sample(here):
    model = classifier(here)
    data = dataset(features[:25], classes[:25])
    fit = model.fit(data, epochs=2, validation_data=data, verbose=0)
    return outcome(model, fit, evaluate=model.evaluate(data, verbose=0))


@way(by_replicas=True, worlds="2 2x2")
def uneven_last_batch_in_several_steps_an_execution(here):
    model = classifier(here, steps_per_execution=here.steps_per_execution(7))
    data = dataset(features[:97], classes[:97])
    return outcome(model, model.fit(data, epochs=2, verbose=0))


@way(worlds="3")
def evaluate_what_does_not_divide(here):
    model = classifier(here, metrics=["accuracy", "sparse_categorical_crossentropy"])
    return {"evaluate": [model.evaluate(dataset(features[:n], classes[:n]), verbose=0) for n in (1, 13, 25, 35)]}


@way()
def sharded_by_data_and_distributed_by_hand(here):
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA
    sharded = dataset(features, classes).with_options(options)
    model = classifier(here)
    first = model.fit(sharded, epochs=1, verbose=0)
    return outcome(model, first, model.fit(here.strategy.experimental_distribute_dataset(sharded), verbose=0))


@way(worlds="3")
def distribute_datasets_from_function(here):
    def of_worker(context):
        size = context.get_per_replica_batch_size(GLOBAL_BATCH)
        rows = tf.data.Dataset.from_tensor_slices((features, classes)).batch(GLOBAL_BATCH)
        parts = rows.map(lambda *batch: tuple(part(context, array) for array in batch))
        return parts.unbatch().batch(size)

    def part(context, array):
        return tf.split(array, context.num_input_pipelines)[context.input_pipeline_id]

    model = classifier(here)
    data = here.strategy.distribute_datasets_from_function(of_worker)
    if here.strategy.num_replicas_in_sync == 1 and here.workers == 1:
        data = of_worker(tf.distribute.InputContext())
    return outcome(model, model.fit(data, epochs=2, steps_per_epoch=STEPS // 2, verbose=0))


def functional_of_two(here, form):
    with here.scope():
        left, right = keras.Input((2,), name="left"), keras.Input((2,), name="right")
        hidden = keras.layers.Dense(4, activation="tanh")(keras.layers.Concatenate()([left, right]))
        kind = keras.layers.Dense(1, activation="sigmoid", name="kind")(hidden)
        size = keras.layers.Dense(1, name="size")(hidden)
        inputs, outputs = ({"left": left, "right": right}, {"kind": kind, "size": size})
        if form is not dict:
            inputs, outputs = form(inputs.values()), form(outputs.values())
        model = keras.Model(inputs, outputs)
        model.compile(
            optimizer=keras.optimizers.SGD(0.05),
            loss=form_of(form, kind="binary_crossentropy", size="mse"),
            metrics=form_of(form, kind=[keras.metrics.AUC(name="auc")], size=["mae"]),
            loss_weights=form_of(form, kind=1.0, size=0.3),
        )
    return model


def form_of(form, **items):
    return items if form is dict else form(items.values())


@way(worlds="1 2")
def dict_inputs_and_outputs_with_sample_weights(here):
    model = functional_of_two(here, dict)
    inputs = {"left": features[:, :2], "right": features[:, 2:]}
    outputs = {"kind": signs, "size": targets}
    weighing = {"kind": sample_weights, "size": sample_weights[::-1].copy()}
    # Keras takes the mean of the losses of each output over batches and replicas, however many samples each had.
    even = {"validation_data": (inputs, outputs), "validation_batch_size": GLOBAL_BATCH}
    fit = model.fit(dataset(inputs, outputs, weighing), epochs=2, **even, verbose=0)
    unseen_inputs = {"left": unseen[:, :2], "right": unseen[:, 2:]}
    return outcome(model, fit, predict=predictions(model, unseen_inputs, batch_size=GLOBAL_BATCH))


@way()
def tuple_inputs_and_list_outputs(here):
    model = functional_of_two(here, list)
    inputs, outputs = (features[:, :2], features[:, 2:]), (signs, targets)
    fit = model.fit(dataset(inputs, outputs), epochs=2, validation_data=dataset(inputs, outputs), verbose=0)
    arrays = model.fit(list(inputs), list(outputs), batch_size=GLOBAL_BATCH, shuffle=False, verbose=0)
    return outcome(model, fit, arrays, predict=predictions(model, [unseen[:, :2], unseen[:, 2:]], batch_size=12))


@way()
def class_weight(here):
    model = classifier(here)
    weighing = {0: 0.5, 1: 2.0, 2: 1.0}
    of_arrays = model.fit(
        features, classes, batch_size=GLOBAL_BATCH, shuffle=False, class_weight=weighing, epochs=1, verbose=0
    )
    of_data = model.fit(dataset(features, classes), class_weight=weighing, epochs=1, verbose=0)
    return outcome(model, of_arrays, of_data)


@way()
def sample_weight(here):
    model = classifier(here, weighted_metrics=["accuracy"])
    fit = model.fit(
        features,
        classes,
        sample_weight=sample_weights,
        batch_size=GLOBAL_BATCH,
        shuffle=False,
        epochs=2,
        validation_split=0.2,
        verbose=0,
    )
    return outcome(model, fit, evaluate=model.evaluate(features, classes, sample_weight=sample_weights, verbose=0))


@way()
def no_targets(here):
    """A dataset that carries inputs only, and one that carries None."""

    class Reconstructs(keras.Model):
        def __init__(self):
            super().__init__()
            self.dense = keras.layers.Dense(4)

        def call(self, inputs):
            outputs = self.dense(inputs)
            self.add_loss(keras.ops.mean(keras.ops.square(outputs - inputs)))
            return outputs

    with here.scope():
        model = Reconstructs()
        model.compile("sgd")
    return outcome(model, model.fit(dataset(features), epochs=2, verbose=0))


@way()
def sparse_inputs(here):
    with here.scope():
        model = keras.Sequential([keras.Input((4,), sparse=True), keras.layers.Dense(1)])
        model.compile("sgd", "mse")
    rows = tf.sparse.from_dense(np.where(features > 0, features, 0))
    data = tf.data.Dataset.from_tensor_slices((rows, targets)).batch(GLOBAL_BATCH)
    return outcome(model, model.fit(data, epochs=2, verbose=0))


@way()
def ragged_inputs(here):
    with here.scope():
        model = keras.Sequential(
            [
                keras.layers.Lambda(lambda row: tf.reduce_mean(row, axis=1, keepdims=True)),
                keras.layers.Dense(1),
            ]
        )
        model.compile("sgd", "mse")
    rows = tf.RaggedTensor.from_row_lengths(features.ravel(), [3, 5] * (len(features) // 2))
    data = tf.data.Dataset.from_tensor_slices((rows, targets)).batch(GLOBAL_BATCH)
    return outcome(model, model.fit(data, epochs=2, verbose=0))


@way()
def long_rows_in_batches_of_several_lengths(here):
    with here.scope():
        model = keras.Sequential([keras.layers.GlobalAveragePooling1D(), keras.layers.Dense(1)])
        model.compile("sgd", "mse")

    def batches():
        for start in range(0, 72, GLOBAL_BATCH):
            length = 3 + start // GLOBAL_BATCH
            rows = slice(start, start + GLOBAL_BATCH)
            yield np.repeat(features[rows, None], length, axis=1), targets[rows].copy()

    spec = tf.TensorSpec((None, None, 4), tf.float32), tf.TensorSpec((None, 1), tf.float32)
    data = tf.data.Dataset.from_generator(batches, output_signature=spec)
    return outcome(model, model.fit(data, epochs=2, verbose=0))


@way()
def several_workers_read_their_own_files(here):
    """Sharded by file: TFRecord files as many as could be wanted, each with one row of every batch."""
    directory = here.shared.parent / f"{here.shared.name}-{here.index}"
    directory.mkdir(parents=True)
    for file in range(12):
        with tf.io.TFRecordWriter(str(directory / f"{file:02d}.tfrecord")) as writer:
            for row in range(file, 48, 12):
                writer.write(np.append(features[row], targets[row]).astype("float32").tobytes())

    def decode(record):
        numbers = tf.ensure_shape(tf.io.decode_raw(record, tf.float32), (5,))
        return numbers[:4], numbers[4:]

    files = tf.data.Dataset.list_files(str(directory / "*.tfrecord"), shuffle=False)
    data = files.interleave(tf.data.TFRecordDataset, cycle_length=12).map(decode).batch(GLOBAL_BATCH)
    model = regressor(here)
    return outcome(model, model.fit(data, epochs=2, verbose=0))
