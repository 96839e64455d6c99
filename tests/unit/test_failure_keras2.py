"""Programs that are written for Keras 2: what Keras 3.15 says to them, each taken from what tf_keras 2.21 runs."""

from __future__ import annotations

import pytest

from launcher.cluster.spec import Task
from launcher.hosts.events import TaskExited
from launcher.run.failure.ending import Ending
from launcher.run.failure.failure import Kind, Runtime

WAY_OUT = "`/venv/bin/python -m pip install tf_keras` on gpu-a, in the version of its TensorFlow, then `"
KERAS_TENSOR = "ValueError: A KerasTensor cannot be used as input to a TensorFlow function. A KerasTensor is a symbolic"
LEGACY = "ImportError: `keras.optimizers.legacy` is not supported in Keras 3. When using `tf.keras`, to continue using"


def crashed(said: str) -> str:
    """The remedy for a program that ended with this exception."""
    log = f'Traceback (most recent call last):\n  File "/home/me/train.py", line 3, in <module>\n    f()\n{said}\n'
    event = TaskExited("gpu-a", Task("worker", 0), 1, None, False, log.encode())
    return Ending(event, stopped=False, runtime=Runtime("/venv/bin/python")).failure.remedy or ""


@pytest.mark.parametrize(
    "said",
    [
        "ValueError: When using `save_weights_only=True` in `ModelCheckpoint`, the filepath provided must end in "
        "`.weights.h5` (Keras weights format). Received: filepath=w.h5",
        "ValueError: The filepath provided must end in `.keras` (Keras model format). Received: filepath=dir",
        "ValueError: The filename must end in `.weights.h5`. Received: filepath=wts.ckpt",
        "ValueError: Invalid filepath extension for saving. Please add either a `.keras` extension for the native",
        "ValueError: The `save_format` argument is deprecated in Keras 3. Please remove this argument and pass a file",
        "TypeError: Model.save_weights() got an unexpected keyword argument 'save_format'",
        "TypeError: ModelCheckpoint.__init__() got an unexpected keyword argument 'period'",
        "TypeError: TensorBoard.__init__() got an unexpected keyword argument 'write_grads'",
        "TypeError: TensorFlowTrainer.fit() got an unexpected keyword argument 'use_multiprocessing'",
        "TypeError: Trainer.compile() got an unexpected keyword argument 'experimental_run_tf_function'",
        "TypeError: BaseOptimizer.apply_gradients() got an unexpected keyword argument "
        "'experimental_aggregate_gradients'",
        "AttributeError: 'Mean' object has no attribute 'reset_states'",
        "AttributeError: 'SparseCategoricalAccuracy' object has no attribute 'reset_states'",
        "AttributeError: 'PrecisionAtRecall' object has no attribute 'reset_states'",
        "AttributeError: 'Sequential' object has no attribute 'reset_states'",
        "AttributeError: 'SGD' object has no attribute 'lr'",
        "AttributeError: 'AdamW' object has no attribute 'lr'",
        "AttributeError: 'Adam' object has no attribute 'minimize'",
        "AttributeError: 'Sequential' object has no attribute 'fit_generator'",
        "ValueError: Argument(s) not recognized: {'lr': 0.1}",
        "ValueError: Unrecognized keyword arguments passed to Dense: {'batch_input_shape': (2, 4)}",
        "ValueError: Invalid value for argument `reduction`. Expected one of {'mean_with_sample_weight', 'mean', "
        "'sum_over_batch_size', 'sum', None, 'none'}. Received: reduction=auto",
        "AttributeError: module 'keras.optimizers' has no attribute 'experimental'",
        "AttributeError: module 'keras._tf_keras.keras.layers' has no attribute 'experimental'",
        "AttributeError: module 'keras._tf_keras.keras' has no attribute 'experimental'",
        "AttributeError: module 'keras._tf_keras.keras.backend' has no attribute 'set_learning_phase'",
        "ModuleNotFoundError: No module named 'tensorflow.keras.layers.experimental'",
        "ModuleNotFoundError: No module named 'tensorflow.keras.experimental'",
        "ModuleNotFoundError: No module named 'keras.layers.experimental'",
        "ModuleNotFoundError: No module named 'keras.preprocessing.text'",
        "ImportError: cannot import name 'ImageDataGenerator' from 'keras.preprocessing.image' (/lib/keras/...)",
        KERAS_TENSOR,
        LEGACY,
    ],
)
def test_a_line_of_keras_2_has_the_way_to_keras_2_as_its_remedy(said: str) -> None:
    remedy = crashed(said)

    assert remedy.startswith(f"the program is written for Keras 2: {WAY_OUT}")
    assert remedy.endswith(" --keras 2 ...`")


def test_a_shape_that_is_a_number_may_be_all_that_is_wrong() -> None:
    """`Input(shape=(1))` is well in Keras 2; `Dense(1, input_shape=(1))` is not."""
    remedy = crashed("ValueError: Cannot convert '1' to a shape.")

    assert remedy.startswith("write a shape as a tuple, like (1,), or: the program is written for Keras 2: ")


@pytest.mark.parametrize(
    "said",
    [
        "AttributeError: 'Trainer' object has no attribute 'lr'",
        "AttributeError: 'MyAdamConfig' object has no attribute 'lr'",
        "AttributeError: 'Counter' object has no attribute 'reset_states'",
        "AttributeError: 'Config' object has no attribute 'experimental'",
        "AttributeError: module 'mypackage.keras' has no attribute 'experimental'",
        "AttributeError: module 'tensorflow.data' has no attribute 'experimental'",
        "TypeError: train() got an unexpected keyword argument 'workers'",
        "TypeError: MyModel.fit() got an unexpected keyword argument 'workers'",
        "TypeError: export() got an unexpected keyword argument 'save_format'",
        "TypeError: apply_gradients() got an unexpected keyword argument 'lr'",
        "ImportError: cannot import name 'Tokenizer' from 'mine.keras.preprocessing.image'",
        # with Keras 2 as well
        "ModuleNotFoundError: No module named 'keras.engine'",
        "ImportError: cannot import name 'np_utils' from 'keras.utils' (/lib/keras/utils/__init__.py)",
        "AttributeError: module 'keras.mixed_precision' has no attribute 'experimental'",
        "AttributeError: 'Sequential' object has no attribute 'predict_classes'",
        "AttributeError: 'SGD' object has no attribute 'get_weights'",
        "ValueError: The following argument(s) are not supported: ['options']",
    ],
)
def test_what_is_no_line_of_keras_2_has_no_such_remedy(said: str) -> None:
    assert "Keras 2" not in crashed(said)


def test_a_program_that_mixes_strategies_is_told_of_the_scope() -> None:
    said = "RuntimeError: Mixing different tf.distribute.Strategy objects: <tensorflow.python.distribute.distribute_lib"
    assert crashed(said) == "create the model, its optimizer and metrics inside strategy.scope()"


def test_keras_2_that_is_missing_or_another_is_named_with_its_version() -> None:
    log = (
        "tf-launch: --keras 2 needs tf_keras 2.18 for TensorFlow 2.18.1, and /venv/bin/python on box has none: "
        "/venv/bin/python -m pip install 'tf_keras==2.18.*'\n"
    )
    event = TaskExited("gpu-a", Task("worker", 0), 2, None, False, log.encode())
    failure = Ending(event, stopped=False, runtime=Runtime("/venv/bin/python")).failure

    assert failure.kind is Kind.BAD_USAGE
    assert failure.remedy == (
        "install Keras 2 for the TensorFlow on gpu-a: `/venv/bin/python -m pip install 'tf_keras==2.18.*'`"
    )
