"""A loop of one's own that tells Keras's callbacks what happens, with a model that is never compiled and without one.

python own_callback_list.py
"""

import keras
import tensorflow as tf

model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])


@tf.function
def one_step(iterator):
    return tf.reduce_mean(model(next(iterator)))


for callbacks in (keras.callbacks.CallbackList([]), keras.callbacks.CallbackList([], model=model)):
    iterator = iter(tf.data.Dataset.from_tensors(tf.ones((3, 2))).repeat())
    callbacks.on_train_begin()
    callbacks.on_epoch_begin(0)
    for step in tf.range(4):
        callbacks.on_train_batch_begin(step)
        loss = one_step(iterator)
        callbacks.on_train_batch_end(step, {"loss": loss})
    callbacks.on_epoch_end(0, {"loss": loss})
    callbacks.on_train_end()
print("done")
