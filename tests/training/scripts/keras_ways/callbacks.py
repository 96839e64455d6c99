"""Callbacks: those that read logs, those that decide, and those that write files."""

import contextlib
import csv
import io
import re
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

from keras_ways.samples import GLOBAL_BATCH, classes, classifier, dataset, features, few, regressor, targets, validation
from keras_ways.world import Batches, floats, number_in, on_chief, outcome, plain, way, weights


def fitted(here, callbacks, epochs=2, steps=5, model=None, **how):
    model = model or classifier(here)
    return model, model.fit(few(steps, (features, classes)), epochs=epochs, callbacks=callbacks, verbose=0, **how)


# Callbacks that read.


@way(worlds="3")
def logs_of_batches(here):
    batches = Batches()
    model, fit = fitted(here, [batches])
    return outcome(model, fit, batches=batches.seen)


@way(worlds="1 2")
def logs_of_executions(here):
    batches = Batches()
    model, fit = fitted(here, [batches], model=classifier(here, steps_per_execution=3))
    return outcome(model, fit, batches=batches.seen)


@way()
def batch_hooks_on_the_last_worker_only(here):
    """The chief has nothing to show; the fits are the same with and without."""
    batches = Batches()
    model, fit = fitted(here, [batches] if here.is_last else [])
    return outcome(model, fit, seen=len(batches.seen) if here.is_last else len(["batch"] * 10 + ["epoch"] * 2))


@way()
def batch_hooks_on_the_chief_in_the_second_fit_only(here):
    batches = Batches()
    model, first = fitted(here, [])
    _, second = fitted(here, [batches] if here.is_chief else [], model=model)
    _, third = fitted(here, [], model=model)
    return outcome(model, first, second, third, on_chief=on_chief(here, batches.seen))


@way()
def lambda_callback(here):
    seen = []
    callback = keras.callbacks.LambdaCallback(
        on_epoch_begin=lambda epoch, logs: seen.append(["begin", epoch]),
        on_epoch_end=lambda epoch, logs: seen.append(["end", epoch, plain(logs)]),
        on_train_batch_end=lambda batch, logs: seen.append([batch, plain(logs)]),
        on_train_end=lambda logs: seen.append(["train end", plain(logs)]),
    )
    model, fit = fitted(here, [callback], validation_data=validation())
    return outcome(model, fit, seen=seen)


class AllHooks(keras.callbacks.Callback):
    """Counts what is called, and keeps the numbers of tests and predictions."""

    def __init__(self):
        super().__init__()
        self.called = []
        self.numbers = []

    def on_test_batch_end(self, batch, logs=None):
        self.called.append(f"test batch {batch}")
        self.numbers.append(plain(logs))

    def on_test_end(self, logs=None):
        self.called.append("test end")
        self.numbers.append(plain(logs))

    def on_predict_batch_end(self, batch, logs=None):
        self.called.append(f"predict batch {batch}")

    def on_predict_end(self, logs=None):
        self.called.append("predict end")


@way()
def hooks_of_validation_evaluate_and_predict(here):
    hooks = AllHooks()
    model, fit = fitted(here, [hooks], epochs=1, validation_data=validation())
    model.evaluate(validation(), callbacks=[hooks], verbose=0)
    model.predict(features[:31], batch_size=GLOBAL_BATCH, callbacks=[hooks], verbose=0)
    return outcome(model, fit, called=hooks.called, numbers=hooks.numbers)


@way()
def hooks_of_evaluate_on_the_chief_only(here):
    hooks = AllHooks()
    model = classifier(here)
    evaluated = model.evaluate(validation(), callbacks=[hooks] if here.is_chief else [], verbose=0)
    return {"evaluate": evaluated, "on_chief": on_chief(here, [hooks.called, hooks.numbers])}


@way()
def callback_that_evaluates_predicts_and_reads(here):
    class Looks(keras.callbacks.Callback):
        def __init__(self):
            super().__init__()
            self.seen = []

        def on_epoch_end(self, epoch, logs=None):
            self.seen.append(floats([metric.result()["accuracy"] for metric in self.model.metrics[1:]]))
            self.seen.append(self.model.evaluate(validation(), verbose=0))
            self.seen.append(self.model.predict(features[:13], verbose=0).tolist())
            self.seen.append(np.asarray(self.model.layers[0].kernel).tolist())
            self.seen.append(number_in(self.model.optimizer.learning_rate))

    looks = Looks()
    model, fit = fitted(here, [looks])
    return outcome(model, fit, seen=looks.seen)


# What is shown.


def shown(here, verbose, **how):
    model = classifier(here, **how)
    screen = io.StringIO()
    with contextlib.redirect_stdout(screen):
        fit = model.fit(
            few(5, (features, classes)), epochs=2, validation_data=validation(), callbacks=[], verbose=verbose
        )
        model.evaluate(validation(), verbose=verbose)
        model.predict(features[:31], batch_size=GLOBAL_BATCH, verbose=verbose)
    return outcome(model, fit, shown=finished_bars(screen.getvalue()))


def finished_bars(text):
    """The numbers at the end of each line; what a bar showed before it was full is a matter of time."""
    last = [line.replace("\b", "").rsplit("\r", 1)[-1] for line in text.split("\n")]
    numbers = [dict(re.findall(r"(\w+): (-?[\d.]+(?:e-?\d+)?)", line)) for line in last]
    return [{name: round(float(n), 3) for name, n in line.items()} for line in numbers if line]


@way()
def verbose_1(here):
    return shown(here, 1)


@way()
def verbose_2(here):
    return shown(here, 2)


@way()
def verbose_on_the_chief_only(here):
    model = classifier(here)
    with contextlib.redirect_stdout(io.StringIO()):
        fit = model.fit(few(5, (features, classes)), epochs=2, verbose=1 if here.is_chief else 0)
        evaluated = model.evaluate(validation(), verbose=1 if here.is_chief else 0)
    return outcome(model, fit, evaluate=evaluated)


# Callbacks that decide.


class StopsAt(keras.callbacks.Callback):
    """Stops the training at a batch of the second epoch."""

    def on_epoch_begin(self, epoch, logs=None):
        self.epoch = epoch

    def on_train_batch_end(self, batch, logs=None):
        if self.epoch == 1 and batch >= 2:
            self.model.stop_training = True


class StopsAtEpoch(keras.callbacks.Callback):
    """Stops the training at the end of the second epoch."""

    def on_epoch_end(self, epoch, logs=None):
        if epoch == 1:
            self.model.stop_training = True


@way(worlds="3")
def stopped_at_a_batch_by_the_last_worker(here):
    model, fit = fitted(here, [StopsAt()] if here.is_last else [], epochs=4)
    return outcome(model, fit, iterations=number_in(model.optimizer.iterations))


@way()
def stopped_at_a_batch_by_the_chief(here):
    model, fit = fitted(here, [StopsAt()] if here.is_chief else [], epochs=4, validation_data=validation())
    return outcome(model, fit, iterations=number_in(model.optimizer.iterations))


@way()
def stopped_at_an_execution_by_the_last_worker(here):
    model, fit = fitted(
        here, [StopsAt()] if here.is_last else [], epochs=4, model=classifier(here, steps_per_execution=2)
    )
    return outcome(model, fit, iterations=number_in(model.optimizer.iterations))


@way()
def stopped_at_an_epoch_by_the_last_worker_and_fitted_again(here):
    model, first = fitted(here, [StopsAtEpoch()] if here.is_last else [], epochs=4, validation_data=validation())
    _, second = fitted(here, [], model=model)
    return outcome(model, first, second, iterations=number_in(model.optimizer.iterations))


@way(worlds="1 2")
def early_stopping_restores_the_best(here):
    """The learning rate is so high that validation gets worse at some time."""
    model = classifier(here, optimizer=lambda: keras.optimizers.SGD(6.0))
    callback = keras.callbacks.EarlyStopping("val_loss", patience=2, restore_best_weights=True)
    _, fit = fitted(here, [callback], epochs=8, model=model, validation_data=validation())
    return outcome(model, fit, stopped=callback.stopped_epoch, best=callback.best_epoch)


@way()
def early_stopping_on_the_chief_only(here):
    model = classifier(here, optimizer=lambda: keras.optimizers.SGD(6.0))
    callback = keras.callbacks.EarlyStopping("val_loss", patience=1)
    _, fit = fitted(here, [callback] if here.is_chief else [], epochs=8, model=model, validation_data=validation())
    return outcome(model, fit)


@way()
def reduce_learning_rate_on_plateau(here):
    model = classifier(here, optimizer=lambda: keras.optimizers.SGD(6.0))
    callback = keras.callbacks.ReduceLROnPlateau("val_loss", factor=0.3, patience=1, min_delta=0.0)
    _, fit = fitted(here, [callback], epochs=5, model=model, validation_data=validation())
    return outcome(model, fit)


@way()
def learning_rate_of_epochs_and_batches(here):
    class Warms(keras.callbacks.Callback):
        def on_train_batch_begin(self, batch, logs=None):
            self.model.optimizer.learning_rate = number_in(self.model.optimizer.learning_rate) * (1 + 0.1 * batch)

    halves = keras.callbacks.LearningRateScheduler(lambda epoch, rate: rate * 0.5)
    return outcome(*fitted(here, [halves, Warms()], epochs=3))


@way()
def terminate_on_nan_of_one_worker(here):
    """Only the replica that has the infinite row sees a loss that is no number; all stop at that step."""
    inputs = np.array(features[: 5 * GLOBAL_BATCH])
    inputs[2 * GLOBAL_BATCH, 1] = np.inf
    model = regressor(here)
    fit = model.fit(
        dataset(inputs, targets[: len(inputs)]), epochs=2, callbacks=[keras.callbacks.TerminateOnNaN()], verbose=0
    )
    return {"epochs": len(fit.history["loss"]), "iterations": number_in(model.optimizer.iterations)}


@way()
def swap_moving_average_of_weights(here):
    model = classifier(here, lambda: keras.optimizers.SGD(0.1, use_ema=True, ema_momentum=0.7))
    callback = keras.callbacks.SwapEMAWeights(swap_on_epoch=True)
    _, fit = fitted(here, [callback], model=model, validation_data=validation())
    return outcome(model, fit)


# Callbacks that write.


def listed(path):
    root = Path(path)
    return sorted(str(file.relative_to(root)) for file in root.rglob("*") if file.is_file())


def written(here, path, read=None):
    """What the chief wrote; on disks of their own, the others wrote nothing."""
    content = {"files": listed(path), "read": read() if read and here.is_chief else None}
    return {"on_chief": on_chief(here, content), "by_others": [] if here.is_chief else content["files"]}


def with_checkpoints(here, path, filename, **how):
    callback = keras.callbacks.ModelCheckpoint(f"{path}/{filename}", **how)
    model = regressor(here, lambda: keras.optimizers.SGD(0.3))
    fit = model.fit(few(5), epochs=3, validation_data=few(2), callbacks=[callback], verbose=0)
    return model, fit


def read_back(here, path, filename):
    """What a file holds for a program without strategy."""
    return lambda: weights(keras.models.load_model(f"{path}/{filename}"))


@way()
def model_checkpoint_of_every_epoch(here):
    path = here.same_path_on_own_disk()
    model, fit = with_checkpoints(here, path, "{epoch:02d}-{val_loss:.3f}.keras")
    return outcome(model, fit, **written(here, path))


@way(worlds="3")
def model_checkpoint_of_the_best(here):
    path = here.same_path_on_own_disk()
    model, fit = with_checkpoints(here, path, "best.keras", save_best_only=True, monitor="val_loss")
    return outcome(model, fit, **written(here, path, read_back(here, path, "best.keras")))


@way()
def model_checkpoint_of_every_third_batch(here):
    path = here.same_path_on_own_disk()
    model, fit = with_checkpoints(here, path, "{epoch}-{batch}-{loss:.3f}.keras", save_freq=3)
    return outcome(model, fit, **written(here, path))


@way()
def model_checkpoint_of_weights_on_a_shared_disk(here):
    model, fit = with_checkpoints(here, here.shared, "{epoch}.weights.h5", save_weights_only=True)

    def read():
        alone = regressor_alone()
        alone.load_weights(here.shared / "3.weights.h5")
        return weights(alone)

    content = {"files": listed(here.shared), "read": read()} if here.is_chief else None
    return outcome(model, fit, on_chief=content)


def regressor_alone():
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
    model.compile(keras.optimizers.SGD(0.3), "mse")
    return model


@way()
def model_checkpoint_of_the_best_on_a_shared_disk(here):
    """One path that all workers see, and write to at once."""
    model, fit = with_checkpoints(here, here.shared, "best.keras", save_best_only=True, monitor="loss")
    content = {"files": listed(here.shared), "read": read_back(here, here.shared, "best.keras")()}
    return outcome(model, fit, on_chief=on_chief(here, content if here.is_chief else None))


@way()
def model_checkpoint_on_the_chief_only(here):
    """Saving takes part in no collective where nothing has to be read from all workers."""
    path = here.same_path_on_own_disk()
    callback = keras.callbacks.ModelCheckpoint(f"{path}/{{epoch}}.keras")
    model, fit = fitted(here, [callback] if here.is_chief else [])
    return outcome(model, fit, **written(here, path))


class PowerCutError(Exception):
    """What ends the first fit."""


class Breaks(keras.callbacks.Callback):
    """Raises in the third epoch, on all workers: at its beginning, or after some batches."""

    def __init__(self, batch=None):
        super().__init__()
        self.batch = batch

    def on_epoch_begin(self, epoch, logs=None):
        self.epoch = epoch
        if epoch == 2 and self.batch is None:
            raise PowerCutError

    def on_train_batch_end(self, batch, logs=None):
        if self.epoch == 2 and self.batch is not None and batch >= self.batch:
            raise PowerCutError


def resumed(here, path, breaks, **how):
    """A fit that breaks off, and another that goes on where the backup was made, with other weights to begin with."""
    data = few(5)

    def model_and_backup():
        model = regressor(here, lambda: keras.optimizers.Adam(0.05))
        return model, keras.callbacks.BackupAndRestore(path, **how)

    first, backup = model_and_backup()
    with contextlib.suppress(PowerCutError):
        first.fit(data, epochs=4, callbacks=[backup, breaks], verbose=0)
        raise AssertionError("the first fit did not break off")
    left = written(here, path)
    second, backup = model_and_backup()
    fit = second.fit(data, epochs=4, callbacks=[backup], verbose=0)
    at_end = written(here, path)
    return outcome(
        second,
        fit,
        epochs=fit.epoch,
        iterations=number_in(second.optimizer.iterations),
        on_chief=[left["on_chief"], at_end["on_chief"]],
        by_others=left["by_others"] + at_end["by_others"],
    )


@way()
def backup_of_epochs(here):
    return resumed(here, here.same_path_on_own_disk(), Breaks())


@way(worlds="1 2")
def backup_of_every_third_batch(here):
    return resumed(here, here.same_path_on_own_disk(), Breaks(batch=3), save_freq=3)


@way()
def backup_of_two_states_kept(here):
    return resumed(here, here.same_path_on_own_disk(), Breaks(), double_checkpoint=True, delete_checkpoint=False)


def on_a_shared_disk(here, result):
    """All see the same files there, at whatever moment they look."""
    return {key: value for key, value in result.items() if key not in ("on_chief", "by_others")}


@way()
def backup_of_epochs_on_a_shared_disk(here):
    return on_a_shared_disk(here, resumed(here, str(here.shared), Breaks()))


@way()
def backup_of_every_third_batch_on_a_shared_disk(here):
    return on_a_shared_disk(here, resumed(here, str(here.shared), Breaks(batch=3), save_freq=3))


def scalars(path):
    """What TensorBoard would show: the scalars by directory and tag. A keras.log has the graph as well."""
    found = {}
    for file in sorted(Path(path).rglob("events.out.tfevents.*")):
        directory = str(file.parent.relative_to(path))
        for event in tf.compat.v1.train.summary_iterator(str(file)):
            for value in event.summary.value:
                if value.HasField("tensor") and value.tensor.dtype == tf.float32.as_datatype_enum:
                    numbers = floats(np.ravel(tf.make_ndarray(value.tensor))[:50])
                    found.setdefault(f"{directory}/{value.tag}", []).append([event.step, numbers])
    return {tag: values for tag, values in found.items() if "steps_per_second" not in tag}


def boarded(here, **how):
    path = here.same_path_on_own_disk()
    callback = keras.callbacks.TensorBoard(path, **how)
    model = regressor(here)
    fit = model.fit(few(5), epochs=2, validation_data=few(2), callbacks=[callback], verbose=0)
    content = scalars(path) if here.is_chief else None
    return outcome(model, fit, on_chief=content, by_others=[] if here.is_chief else listed(path))


@way(worlds="1 2")
def tensorboard_of_batches(here):
    return boarded(here, update_freq="batch", write_graph=False)


@way()
def tensorboard_with_histograms_every_second_batch(here):
    return boarded(here, update_freq=2, write_steps_per_second=True, histogram_freq=1)


@way()
def csv_logger(here):
    path = here.same_path_on_own_disk()
    model, fit = fitted(here, [keras.callbacks.CSVLogger(path)], validation_data=validation())
    return outcome(model, fit, **rows_of(here, path))


def number(text):
    return text if text == "NA" else float(text)


def rows_of(here, path):
    if not here.is_chief:
        return {"on_chief": None, "by_others": [str(p) for p in [path] if Path(p).exists()]}
    with Path(path).open() as file:
        return {
            "on_chief": [{name: number(text) for name, text in row.items()} for row in csv.DictReader(file)],
            "by_others": [],
        }


@way()
def csv_logger_that_appends_on_a_shared_disk(here):
    here.shared.mkdir(parents=True, exist_ok=True)
    path = here.shared / "log.csv"
    model, first = fitted(here, [keras.callbacks.CSVLogger(path, append=True)])
    _, second = fitted(here, [keras.callbacks.CSVLogger(path, append=True)], epochs=4, initial_epoch=2, model=model)
    return outcome(model, first, second, **(rows_of(here, path) | {"by_others": []}))
