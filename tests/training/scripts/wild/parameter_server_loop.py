"""Asynchronous training on parameter servers by a loop of one's own: `ClusterCoordinator`, one program for all tasks.

The chief sends steps to the workers, saves a checkpoint after each round of them, and goes on from the newest one.
"""

import argparse
import os

import keras
import tensorflow as tf

parser = argparse.ArgumentParser()
parser.add_argument("--rounds", type=int, default=4)
parser.add_argument("--steps-per-round", type=int, default=10)
parser.add_argument("--until", help="go on with further rounds, without checkpoints, until this file exists")
options = parser.parse_args()

cluster_resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
if cluster_resolver.task_type in ("worker", "ps"):
    server = tf.distribute.Server(
        cluster_resolver.cluster_spec(),
        job_name=cluster_resolver.task_type,
        task_index=cluster_resolver.task_id,
        protocol=cluster_resolver.rpc_layer or "grpc",
        start=True,
    )
    print(cluster_resolver.task_type, "serves", flush=True)
    server.join()

strategy = tf.distribute.ParameterServerStrategy(cluster_resolver)
coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)

with strategy.scope():
    model = keras.Sequential([keras.layers.Input((8,)), keras.layers.Dense(1)])
    optimizer = keras.optimizers.SGD(0.05)
    optimizer.build(model.trainable_variables)
    steps_done = tf.Variable(0, dtype=tf.int64, aggregation=tf.VariableAggregation.ONLY_FIRST_REPLICA)

checkpoint_dir = os.path.join(os.environ.get("LAUNCH_OUTPUT_DIR", "/tmp/parameter_server_loop"), "checkpoints")
checkpoint = tf.train.Checkpoint(model=model, steps=steps_done)
manager = tf.train.CheckpointManager(checkpoint, checkpoint_dir, max_to_keep=2)
if manager.latest_checkpoint:
    checkpoint.restore(manager.latest_checkpoint)
    print("goes on from", os.path.basename(manager.latest_checkpoint), flush=True)


def examples(_context=None):
    features = tf.random.stateless_normal([64, 8], [7, 1])
    labels = tf.reduce_sum(features, axis=1, keepdims=True)
    return tf.data.Dataset.from_tensor_slices((features, labels)).shuffle(64).batch(16).repeat()


@tf.function
def per_worker_dataset():
    return strategy.distribute_datasets_from_function(examples)


@tf.function
def train_step(iterator):
    def replica_step(features, labels):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(model(features, training=True) - labels))
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        steps_done.assign_add(1)
        return loss

    losses = strategy.run(replica_step, args=next(iterator))
    return strategy.reduce(tf.distribute.ReduceOp.SUM, losses, axis=None)


def train_a_round():
    for _ in range(options.steps_per_round):
        loss = coordinator.schedule(train_step, args=(iterator,))
    coordinator.join()
    return loss.fetch()


iterator = iter(coordinator.create_per_worker_dataset(per_worker_dataset))
for number in range(1, options.rounds + 1):
    loss = train_a_round()
    manager.save()
    print(f"round {number}: loss {loss:.4f} after {int(steps_done)} steps", flush=True)
while options.until and not os.path.exists(options.until):
    loss = train_a_round()
print(f"trained: loss {loss:.4f} after {int(steps_done)} steps", flush=True)
