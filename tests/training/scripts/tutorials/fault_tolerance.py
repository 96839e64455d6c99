"""Trains with `Model.fit`, backing up each epoch and keeping the weights of each; started again, it goes on.

python fault_tolerance.py DIRECTORY EPOCH   (in the first attempt worker 1 is killed in the middle of that epoch)
"""

import json
import os
import signal
import sys

import mnist_setup
import tensorflow as tf
from chief_saves import fingerprint, tell

directory, fatal_epoch = sys.argv[1], int(sys.argv[2])
tf_config = json.loads(os.environ["TF_CONFIG"])
per_worker_batch_size = 32
num_workers = len(tf_config["cluster"]["worker"])
task_id = tf_config["task"]["index"]


class Accident(tf.keras.callbacks.Callback):
    def __init__(self):
        super().__init__()
        self.epoch = 0

    def on_epoch_begin(self, epoch, logs=None):
        self.epoch = epoch

    def on_train_batch_begin(self, batch, logs=None):
        if self.epoch == fatal_epoch and batch == 5 and task_id == 1 and os.environ["LAUNCH_ATTEMPT"] == "0":
            os.kill(os.getpid(), signal.SIGKILL)


strategy = tf.distribute.MultiWorkerMirroredStrategy()
multi_worker_dataset = mnist_setup.mnist_dataset(per_worker_batch_size * num_workers)

with strategy.scope():
    multi_worker_model = mnist_setup.build_and_compile_cnn_model()

callbacks = [
    tf.keras.callbacks.BackupAndRestore(backup_dir=os.path.join(directory, "backup")),
    tf.keras.callbacks.ModelCheckpoint(os.path.join(directory, "weights-{epoch}.weights.h5"), save_weights_only=True),
    Accident(),
]
history = multi_worker_model.fit(multi_worker_dataset, epochs=4, steps_per_epoch=10, callbacks=callbacks, verbose=2)
tell(
    epochs=history.epoch,
    weights=fingerprint(multi_worker_model.get_weights()),
    steps=int(multi_worker_model.optimizer.iterations.numpy()),
)
