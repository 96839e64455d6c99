"""Start TensorFlow programs on several processes or hosts with one command."""

__version__ = "0.1.0"
