"""NumPy arrays, every usual callback, and files in whatever directory the program was started in."""

import os

import numpy as np
import tensorflow as tf
from tensorflow import keras
from tensorflow.keras import callbacks, layers

strategy = tf.distribute.MultiWorkerMirroredStrategy()
print(f"Number of devices: {strategy.num_replicas_in_sync}")

rng = np.random.default_rng(7)
x_train = rng.normal(size=(256, 8)).astype("float32")
y_train = (x_train.sum(axis=1, keepdims=True) > 0).astype("float32")
x_val, y_val = x_train[:64], y_train[:64]

with strategy.scope():
    model = keras.Sequential(
        [layers.Input((8,)), layers.Dense(16, activation="relu"), layers.Dense(1, activation="sigmoid")]
    )
    model.compile(optimizer=keras.optimizers.Adam(1e-2), loss="binary_crossentropy", metrics=["accuracy"])


def schedule(epoch, lr):
    return lr if epoch < 2 else lr * 0.5


os.makedirs("logs", exist_ok=True)
my_callbacks = [
    callbacks.BackupAndRestore("backup"),
    callbacks.ModelCheckpoint("checkpoints/best.keras", monitor="val_loss", save_best_only=True),
    callbacks.CSVLogger("logs/history.csv"),
    callbacks.TensorBoard(log_dir="logs/tensorboard", histogram_freq=1),
    callbacks.LearningRateScheduler(schedule),
    callbacks.ReduceLROnPlateau(monitor="val_loss", patience=1, factor=0.1, min_delta=10.0),
    callbacks.EarlyStopping(monitor="val_loss", patience=3, min_delta=10.0, restore_best_weights=True),
    callbacks.TerminateOnNaN(),
    callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: print("end of epoch", epoch, sorted(logs))),
]
history = model.fit(
    x_train, y_train, batch_size=64, epochs=20, validation_data=(x_val, y_val), callbacks=my_callbacks, verbose=2
)
score = model.evaluate(x_val, y_val, verbose=0)
predictions = model.predict(x_val, verbose=0)

model.save("final.keras")
model.save_weights("final.weights.h5")
loaded = keras.models.load_model("final.keras")
loaded.load_weights("final.weights.h5")
assert np.allclose(loaded.predict(x_val, verbose=0), predictions, atol=1e-5)
print(f"stopped after {len(history.epoch)} epochs; {len(predictions)} predictions; loss {score[0]:.4f}")
