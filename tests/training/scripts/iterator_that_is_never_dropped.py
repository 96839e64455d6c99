"""Trains on a pipeline that reads ahead from a FIFO nobody writes to: dropping its iterator takes for ever.

argv: a module whose `enable()` is called first; how `fit` ends: "epoch is over", "training is stopped" or
"error". Ends with exit code 3, after an error with 1.
"""

import os
import sys
import tempfile
from importlib import import_module
from pathlib import Path

import keras
import tensorflow as tf

STEPS = 3


def sample(path: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    x = tf.strings.to_number(tf.io.read_file(path))[None, None]
    return x, 2 * x


class Leave(keras.callbacks.Callback):
    """Leaves the epoch before its end."""

    def on_train_batch_end(self, batch: int, logs: object = None) -> None:
        if sys.argv[2] == "error":
            raise ValueError("bad luck")
        self.model.stop_training = sys.argv[2] == "training is stopped"


def main() -> None:
    assert import_module(sys.argv[1]).enable()
    with tempfile.TemporaryDirectory() as directory:
        paths = [Path(directory, str(index)) for index in range(STEPS + 1)]
        for path in paths[:STEPS]:
            path.write_text("1")
        os.mkfifo(paths[STEPS])
        model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
        model.compile("sgd", "mse")
        data = tf.data.Dataset.from_tensor_slices([str(path) for path in paths]).map(sample).prefetch(1)
        model.fit(data, steps_per_epoch=STEPS, callbacks=[Leave()], verbose=0)
    print("trained", flush=True)
    sys.exit(3)


if __name__ == "__main__":
    main()
