"""A training loop of one's own on several workers with checkpoints; started again, it goes on where it was.

python custom_loop.py DIRECTORY EPOCH   (in the first attempt worker 1 is killed in the middle of that epoch)
"""

import json
import os
import signal
import sys

import mnist_setup
import tensorflow as tf
from chief_saves import _is_chief, fingerprint, tell, write_filepath

directory, fatal_epoch = sys.argv[1], int(sys.argv[2])
tf_config = json.loads(os.environ["TF_CONFIG"])
per_worker_batch_size = 32
num_workers = len(tf_config["cluster"]["worker"])
global_batch_size = per_worker_batch_size * num_workers
num_epochs = 3
num_steps_per_epoch = 20

strategy = tf.distribute.MultiWorkerMirroredStrategy()

with strategy.scope():
    multi_worker_dataset = strategy.distribute_datasets_from_function(
        lambda input_context: mnist_setup.dataset_fn(global_batch_size, input_context)
    )
    multi_worker_model = mnist_setup.build_cnn_model()
    optimizer = tf.keras.optimizers.RMSprop(learning_rate=0.001)
    train_accuracy = tf.keras.metrics.SparseCategoricalAccuracy(name="train_accuracy")
    loss_object = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="none")


@tf.function
def train_step(iterator):
    def step_fn(inputs):
        x, y = inputs
        with tf.GradientTape() as tape:
            predictions = multi_worker_model(x, training=True)
            per_example_loss = loss_object(y, predictions)
            loss = tf.nn.compute_average_loss(per_example_loss, global_batch_size=global_batch_size)
        gradients = tape.gradient(loss, multi_worker_model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, multi_worker_model.trainable_variables, strict=True))
        train_accuracy.update_state(y, predictions)
        return loss

    per_replica_losses = strategy.run(step_fn, args=(next(iterator),))
    return strategy.reduce(tf.distribute.ReduceOp.SUM, per_replica_losses, axis=None)


epoch = tf.Variable(initial_value=tf.constant(0, dtype=tf.dtypes.int64), name="epoch")
step_in_epoch = tf.Variable(initial_value=tf.constant(0, dtype=tf.dtypes.int64), name="step_in_epoch")
task_type, task_id = strategy.cluster_resolver.task_type, strategy.cluster_resolver.task_id

checkpoint_dir = os.path.join(directory, "ckpt")
checkpoint = tf.train.Checkpoint(model=multi_worker_model, epoch=epoch, step_in_epoch=step_in_epoch)
write_checkpoint_dir = write_filepath(checkpoint_dir, task_type, task_id)
checkpoint_manager = tf.train.CheckpointManager(checkpoint, directory=write_checkpoint_dir, max_to_keep=1)

latest_checkpoint = tf.train.latest_checkpoint(checkpoint_dir)
if latest_checkpoint:
    checkpoint.restore(latest_checkpoint)

epochs, losses, accuracies = [], [], []
while epoch.numpy() < num_epochs:
    iterator = iter(multi_worker_dataset)
    total_loss = 0.0
    num_batches = 0
    while step_in_epoch.numpy() < num_steps_per_epoch:
        if epoch.numpy() == fatal_epoch and num_batches == 5 and task_id == 1 and os.environ["LAUNCH_ATTEMPT"] == "0":
            os.kill(os.getpid(), signal.SIGKILL)
        total_loss += train_step(iterator)
        num_batches += 1
        step_in_epoch.assign_add(1)
    train_loss = total_loss / num_batches
    epochs.append(int(epoch.numpy()))
    losses.append(float(train_loss))
    accuracies.append(float(train_accuracy.result()))
    print(f"Epoch: {epochs[-1]}, accuracy: {accuracies[-1]:f}, train_loss: {losses[-1]:f}.")
    train_accuracy.reset_state()
    epoch.assign_add(1)
    step_in_epoch.assign(0)
    checkpoint_manager.save()
    if not _is_chief(task_type, task_id):
        tf.io.gfile.rmtree(write_checkpoint_dir)

if not _is_chief(task_type, task_id):
    tf.io.gfile.rmtree(os.path.dirname(write_checkpoint_dir))
tell(
    epochs=epochs,
    losses=losses,
    accuracies=accuracies,
    weights=fingerprint([v.numpy() for v in multi_worker_model.variables]),
)
