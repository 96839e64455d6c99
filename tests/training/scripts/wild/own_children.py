"""Prepares its input by processes of its own: a pool that forks before TensorFlow is touched, one that spawns after."""

import concurrent.futures
import multiprocessing
import os

import numpy as np


def prepare(seed):
    random = np.random.RandomState(seed)
    return random.rand(32, 6).astype("float32"), random.randint(0, 2, 32)


def normalize(array):
    import tensorflow as tf  # what a child needs, too

    return tf.nn.l2_normalize(tf.constant(array), axis=1).numpy()


def listen(queue, done):
    while (item := queue.get()) is not None:
        done.put((os.getpid(), item))


def main():
    with multiprocessing.get_context("fork").Pool(2) as pool:
        parts = pool.map(prepare, range(4))

    import tensorflow as tf

    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    with concurrent.futures.ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        images = np.concatenate(list(pool.map(normalize, [x for x, _ in parts])))
    labels = np.concatenate([y for _, y in parts])

    context = multiprocessing.get_context("spawn")
    queue, done = context.Queue(), context.Queue()
    logger = context.Process(target=listen, args=(queue, done), daemon=True)
    logger.start()
    with strategy.scope():
        model = tf.keras.Sequential([tf.keras.Input((6,)), tf.keras.layers.Dense(2, activation="softmax")])
        model.compile("sgd", "sparse_categorical_crossentropy", metrics=["accuracy"])
    report = tf.keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: queue.put(epoch))
    model.fit(images, labels, batch_size=32, epochs=2, callbacks=[report], verbose=2)
    queue.put(None)
    logger.join()
    heard = [done.get(timeout=60)[1] for _ in range(2)]
    print("logged epochs:", heard)


if __name__ == "__main__":
    main()
