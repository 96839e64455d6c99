"""`fit` of Keras 2 under `ParameterServerStrategy`, with `DatasetCreator`; an evaluator task looks at its checkpoints.

Needs legacy Keras: `TF_USE_LEGACY_KERAS=1`. Keras 3 refuses to fit on parameter servers.
"""

import os

import tensorflow as tf

EPOCHS = 3
checkpoint_dir = os.path.join(os.environ["LAUNCH_OUTPUT_DIR"], "checkpoints")
cluster_resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()


def dataset_fn(input_context=None):
    features = tf.random.stateless_normal([256, 8], [7, 1])
    labels = tf.cast(tf.reduce_sum(features, axis=1, keepdims=True) > 0, tf.float32)
    return tf.data.Dataset.from_tensor_slices((features, labels)).shuffle(256).repeat().batch(32)


def compiled_model():
    model = tf.keras.Sequential([tf.keras.layers.Dense(4, "relu"), tf.keras.layers.Dense(1, "sigmoid")])
    model.compile(tf.keras.optimizers.legacy.SGD(0.1), loss="binary_crossentropy", metrics=["accuracy"])
    return model


if cluster_resolver.task_type in ("worker", "ps"):
    tf.distribute.Server(
        cluster_resolver.cluster_spec(),
        job_name=cluster_resolver.task_type,
        task_index=cluster_resolver.task_id,
    ).join()
elif cluster_resolver.task_type == "evaluator":
    model = compiled_model()
    tell = tf.keras.callbacks.LambdaCallback(
        on_test_end=lambda logs: print("evaluated", int(model.optimizer.iterations), "steps", flush=True)
    )
    tf.keras.utils.SidecarEvaluator(model, dataset_fn(), checkpoint_dir, steps=4, callbacks=[tell]).start()
else:
    strategy = tf.distribute.ParameterServerStrategy(cluster_resolver)
    with strategy.scope():
        model = compiled_model()
    history = model.fit(
        tf.keras.utils.experimental.DatasetCreator(dataset_fn),
        epochs=EPOCHS,
        steps_per_epoch=10,
        callbacks=[tf.keras.callbacks.ModelCheckpoint(checkpoint_dir + "/ckpt-{epoch}", save_weights_only=True)],
        verbose=2,
    )
    print("trained", EPOCHS, "epochs, loss", history.history["loss"][-1], flush=True)
