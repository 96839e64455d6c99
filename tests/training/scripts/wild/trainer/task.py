"""A package with options, `python -m trainer.task --epochs 2`: a loop of its own over the input of each worker."""

import argparse

import numpy as np
import tensorflow as tf

from .model import create_model


def get_args():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--batch-size", dest="batch_size", type=int, default=16, help="of each replica")
    parser.add_argument("--learning-rate", type=float, default=0.1)
    return parser.parse_args()


def dataset_fn(context, batch_size):
    x = np.random.RandomState(1).rand(192, 4).astype(np.float32)
    y = x.argmax(axis=1).clip(max=2)
    dataset = tf.data.Dataset.from_tensor_slices((x, y))
    dataset = dataset.shard(context.num_input_pipelines, context.input_pipeline_id)
    return dataset.shuffle(96, seed=1).batch(batch_size, drop_remainder=True).prefetch(2)


def main():
    args = get_args()
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    with strategy.scope():
        model = create_model()
        optimizer = tf.keras.optimizers.SGD(args.learning_rate)
        optimizer.build(model.trainable_variables)
        accuracy = tf.keras.metrics.SparseCategoricalAccuracy()
        loss_object = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="none")
    dataset = strategy.distribute_datasets_from_function(lambda context: dataset_fn(context, args.batch_size))
    global_batch_size = args.batch_size * strategy.num_replicas_in_sync

    def train_step(inputs):
        x, y = inputs
        with tf.GradientTape() as tape:
            logits = model(x, training=True)
            loss = tf.nn.compute_average_loss(loss_object(y, logits), global_batch_size=global_batch_size)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        accuracy.update_state(y, logits)
        return loss

    @tf.function
    def distributed_train_step(inputs):
        losses = strategy.run(train_step, args=(inputs,))
        return strategy.reduce(tf.distribute.ReduceOp.SUM, losses, axis=None)

    for epoch in range(args.epochs):
        total, batches = 0.0, 0
        for inputs in dataset:
            total += distributed_train_step(inputs)
            batches += 1
        print(f"Epoch {epoch + 1}: loss {total / batches:.4f}, accuracy {accuracy.result():.4f}, {batches} steps")
        accuracy.reset_state()
    print("finished training")


if __name__ == "__main__":
    main()
