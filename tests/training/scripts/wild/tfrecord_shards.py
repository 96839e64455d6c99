"""Records in several files, of which each worker reads its own, for a loop with `experimental_distribute_dataset`."""

import os

import numpy as np
import tensorflow as tf
from absl import app, flags, logging

FLAGS = flags.FLAGS
flags.DEFINE_enum("mode", "train", ["write", "train"], "What to do.")
flags.DEFINE_string("records", None, "Directory of the records.", required=True)
flags.DEFINE_integer("epochs", 1, "Number of epochs.")
FEATURES = {"image": tf.io.FixedLenFeature([16], tf.float32), "label": tf.io.FixedLenFeature([], tf.int64)}


def write_records(directory, files=4, examples=24):
    random = np.random.RandomState(5)
    for number in range(files):
        with tf.io.TFRecordWriter(os.path.join(directory, f"part-{number:05d}.tfrecord")) as writer:
            for _ in range(examples):
                image = random.rand(16)
                feature = {
                    "image": tf.train.Feature(float_list=tf.train.FloatList(value=image)),
                    "label": tf.train.Feature(int64_list=tf.train.Int64List(value=[int(image.mean() > 0.5)])),
                }
                writer.write(tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString())


def make_dataset(directory, batch_size):
    def parse(record):
        example = tf.io.parse_single_example(record, FEATURES)
        return example["image"], example["label"]

    files = tf.data.Dataset.list_files(os.path.join(directory, "part-*.tfrecord"), shuffle=False)
    dataset = files.interleave(tf.data.TFRecordDataset, cycle_length=2, num_parallel_calls=tf.data.AUTOTUNE)
    dataset = dataset.map(parse, num_parallel_calls=tf.data.AUTOTUNE).shuffle(64).batch(batch_size)
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.FILE
    return dataset.with_options(options).prefetch(tf.data.AUTOTUNE)


def main(argv):
    if FLAGS.mode == "write":
        write_records(FLAGS.records)
        return
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    dataset = strategy.experimental_distribute_dataset(make_dataset(FLAGS.records, 16))
    with strategy.scope():
        weights = tf.Variable(tf.zeros([16, 2]))
        examples = tf.Variable(
            0, aggregation=tf.VariableAggregation.SUM, synchronization=tf.VariableSynchronization.ON_READ
        )

    @tf.function
    def train_step(iterator):
        def step(images, labels):
            with tf.GradientTape() as tape:
                loss = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, images @ weights)
                loss = tf.reduce_sum(loss) / 16
            gradient = tape.gradient(loss, weights)
            gradient = tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, gradient)
            weights.assign_sub(0.1 * gradient)
            examples.assign_add(tf.shape(labels)[0])
            return loss

        losses = strategy.run(step, args=next(iterator))
        return strategy.reduce(tf.distribute.ReduceOp.SUM, losses, axis=None)

    for epoch in range(FLAGS.epochs):
        iterator = iter(dataset)
        try:
            while True:
                loss = train_step(iterator)
        except (StopIteration, tf.errors.OutOfRangeError):
            logging.info("epoch %d: loss %.4f", epoch, loss)
    print("examples seen:", strategy.reduce(tf.distribute.ReduceOp.SUM, examples, axis=None).numpy())


if __name__ == "__main__":
    app.run(main)
