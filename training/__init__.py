"""The training program that comes with tf-launch: Keras 3 under MultiWorkerMirroredStrategy, or in one process."""
