"""Keras and TensorFlow carry no types: these names say what is meant."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Function = Callable[..., Any]
Model = Any
Strategy = Any
Callback = Any
CallbackList = Any
Optimizer = Any
Variable = Any
Dataset = Any
Data = Any
"""A nested structure of tensors, or of values per replica."""
