"""Data and model of the tutorials; digits of 8 by 8 pixels stand in for those that the tutorials download."""

import numpy as np
import tensorflow as tf

from training.data.digits import load_digits


def digits():
    examples = load_digits()
    return np.asarray(examples.images, "float32").reshape(-1, 8, 8), np.asarray(examples.labels, "int64")


def mnist_dataset(batch_size):
    x_train, y_train = digits()
    return tf.data.Dataset.from_tensor_slices((x_train, y_train)).shuffle(2000, seed=1).repeat().batch(batch_size)


def dataset_fn(global_batch_size, input_context):
    batch_size = input_context.get_per_replica_batch_size(global_batch_size)
    x_train, y_train = digits()
    dataset = tf.data.Dataset.from_tensor_slices((x_train, y_train)).shuffle(2000, seed=1)
    dataset = dataset.shard(input_context.num_input_pipelines, input_context.input_pipeline_id)
    return dataset.repeat().batch(batch_size, drop_remainder=True)


def build_cnn_model():
    return tf.keras.Sequential(
        [
            tf.keras.Input(shape=(8, 8)),
            tf.keras.layers.Reshape(target_shape=(8, 8, 1)),
            tf.keras.layers.Conv2D(8, 3, activation="relu"),
            tf.keras.layers.Flatten(),
            tf.keras.layers.Dense(16, activation="relu"),
            tf.keras.layers.Dense(10),
        ]
    )


def build_and_compile_cnn_model():
    model = build_cnn_model()
    model.compile(
        loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        optimizer=tf.keras.optimizers.SGD(learning_rate=0.05),
        metrics=["accuracy"],
    )
    return model
