"""Trains with `Model.fit` on several workers, then saves the model and a checkpoint, as the tutorial does.

python main.py DIRECTORY
"""

import json
import os
import sys

import mnist_setup
import tensorflow as tf
from chief_saves import _is_chief, fingerprint, tell, write_filepath

directory = sys.argv[1]
per_worker_batch_size = 32
tf_config = json.loads(os.environ["TF_CONFIG"])
num_workers = len(tf_config["cluster"]["worker"])

strategy = tf.distribute.MultiWorkerMirroredStrategy()

global_batch_size = per_worker_batch_size * num_workers
options = tf.data.Options()
options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA
multi_worker_dataset = mnist_setup.mnist_dataset(global_batch_size).with_options(options)

with strategy.scope():
    # Building and compiling has to happen in the scope of the strategy.
    multi_worker_model = mnist_setup.build_and_compile_cnn_model()

history = multi_worker_model.fit(multi_worker_dataset, epochs=3, steps_per_epoch=20)
loss, accuracy = multi_worker_model.evaluate(multi_worker_dataset, steps=10, verbose=0)

task_type, task_id = strategy.cluster_resolver.task_type, strategy.cluster_resolver.task_id

# Saving: all workers take part, each in a place of its own.
model_path = os.path.join(directory, "keras-model.keras")
write_model_path = write_filepath(model_path, task_type, task_id)
multi_worker_model.save(write_model_path)
if not _is_chief(task_type, task_id):
    tf.io.gfile.rmtree(os.path.dirname(write_model_path))

# The same with checkpoints, of which one is kept.
checkpoint_dir = os.path.join(directory, "ckpt")
checkpoint = tf.train.Checkpoint(model=multi_worker_model)
write_checkpoint_dir = write_filepath(checkpoint_dir, task_type, task_id)
checkpoint_manager = tf.train.CheckpointManager(checkpoint, directory=write_checkpoint_dir, max_to_keep=1)
checkpoint_manager.save()
trained = multi_worker_model.get_weights()
if not _is_chief(task_type, task_id):
    tf.io.gfile.rmtree(write_checkpoint_dir)
    tf.io.gfile.rmtree(os.path.dirname(write_checkpoint_dir))

# All workers restore from the chief's files; this reduction returns when the chief has written them.
strategy.reduce("SUM", strategy.run(lambda: tf.constant(1.0)), axis=None)
multi_worker_model.set_weights([weight * 0 for weight in trained])
checkpoint.restore(tf.train.latest_checkpoint(checkpoint_dir))

tell(
    losses=history.history["loss"],
    evaluated=[float(loss), float(accuracy)],
    trained=fingerprint(trained),
    restored=fingerprint(multi_worker_model.get_weights()),
)
