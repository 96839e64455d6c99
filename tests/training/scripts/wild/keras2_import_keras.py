"""A program for Keras 2 that takes Keras from `keras`, as all did before there was a Keras 3."""

import keras
import numpy as np
import tensorflow as tf
from keras.layers import Dense
from keras.models import Sequential
from keras.preprocessing.image import ImageDataGenerator

strategy = tf.distribute.MultiWorkerMirroredStrategy()
with strategy.scope():
    model = Sequential([keras.layers.Flatten(input_shape=(4, 4, 1)), Dense(1)])
    model.compile(keras.optimizers.SGD(learning_rate=0.01), "mse", metrics=[keras.metrics.MeanAbsoluteError()])
images = np.linspace(0.0, 1.0, 16 * 16, dtype="float32").reshape(16, 4, 4, 1)
ImageDataGenerator(rescale=2.0).standardize(images.copy())
history = model.fit(images, images.mean(axis=(1, 2, 3)), batch_size=8, epochs=2, verbose=0)
print("Keras", keras.__version__.split(".")[0], "replicas", strategy.num_replicas_in_sync)
