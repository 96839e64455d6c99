"""What Keras 3 says to a program that is written for Keras 2, and the way out. Pure.

Each text was taken from a small program that fails with Keras 3.15 and trains with tf_keras 2.21; what fails with both
(`predict_classes`, `optimizer.get_weights`, ...) is left out. An attribute or an argument counts only with the name of
a class of Keras: a program's own classes may lack the same.
"""

from __future__ import annotations

_OPTIMIZER = r"(?:Ada(?:delta|factor|grad|m|max|mW)|Ftrl|Lion|LossScaleOptimizer|Nadam|RMSprop|SGD|Optimizer)"
_METRIC = (
    r"(?:Mean|Sum|Hinge|Poisson|AUC|Precision|Recall|(?:F1|FBeta|R2)Score|KLDivergence"
    r"|\w{1,60}(?:Accuracy|Crossentropy|Error|Hinge|IoU|Negatives|Positives|Similarity|At[A-Z]\w{1,60})|\w{0,60}Metric\w{0,60})"
)
_MODEL = r"(?:Model|Sequential|Functional)"
_LACKS = (
    rf"'{_OPTIMIZER}' object has no attribute '(?:lr|minimize)'",
    rf"'(?:{_METRIC}|{_MODEL})' object has no attribute 'reset_states'",
    rf"'{_MODEL}' object has no attribute '(?:fit|evaluate|predict)_generator'",
    r"module 'keras(?:\.(?!mixed_precision)\w+)*' has no attribute 'experimental'",
    r"No module named '(?:tensorflow\.)?keras\.(?:\w+\.)?experimental\b",
    r"No module named 'keras\.preprocessing\.text'",
    r"cannot import name 'ImageDataGenerator' from 'keras\.preprocessing\.image'",
    r"module 'keras[\w.]*\.backend' has no attribute 'set_learning_phase'",
    r"`keras\.optimizers\.legacy` is not supported in Keras 3",
)
_REFUSES = (
    r"must end in `?\.(?:keras|weights\.h5)\b",
    r"Invalid filepath extension for saving",
    r"The `save_format` argument is deprecated in Keras 3",
    rf"{_MODEL}\.save(?:_weights)?\(\) got an unexpected keyword argument 'save_format'",
    r"ModelCheckpoint\.__init__\(\) got an unexpected keyword argument '(?:options|period)'",
    r"TensorBoard\.__init__\(\) got an unexpected keyword argument 'write_grads'",
    r"Trainer\.\w+\(\) got an unexpected keyword argument '(?:workers|use_multiprocessing|max_queue_size)'",
    r"Trainer\.compile\(\) got an unexpected keyword argument 'experimental_\w+'",
    r"Optimizer\.apply_gradients\(\) got an unexpected keyword argument "
    r"'(?:experimental_aggregate_gradients|skip_gradients_aggregation)'",
    r"Argument\(s\) not recognized: \{'lr': [^,}]{1,100}\}",
    r"Unrecognized keyword arguments passed to \w+: \{'(?:batch_input_shape|fused|time_major|weights)'",
    r"Invalid value for argument `reduction`\..{0,300}Received: reduction=auto",
    r"A KerasTensor cannot be used as input to a TensorFlow function",
)
_WAY_OUT = (
    "the program is written for Keras 2: `{python} -m pip install tf_keras` on {host}, in the version of its "
    "TensorFlow, then `{launch} --keras 2 ...`"
)
REMEDIES = (
    (rf"(?:{'|'.join(_LACKS)})", _WAY_OUT),
    (rf"(?:{'|'.join(_REFUSES)})", _WAY_OUT),
    (
        r"^tf-launch: --keras 2 needs tf_keras (?P<version>[\d.]+) for",
        "install Keras 2 for the TensorFlow on {host}: `{python} -m pip install 'tf_keras=={version}.*'`",
    ),
    (r"Cannot convert '\d+' to a shape", f"write a shape as a tuple, like (1,), or: {_WAY_OUT}"),
)
"""Pattern and remedy, as those of `remedies`; `{launch}` stands for the command as it was called."""
