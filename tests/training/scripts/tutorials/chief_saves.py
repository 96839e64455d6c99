"""How the tutorials have every worker save and only the chief keep what was saved."""

import hashlib
import json
import os

import tensorflow as tf


def _is_chief(task_type, task_id):
    return task_type is None or task_type == "chief" or (task_type == "worker" and task_id == 0)


def _get_temp_dir(dirpath, task_id):
    temp_dir = os.path.join(dirpath, "workertemp_" + str(task_id))
    tf.io.gfile.makedirs(temp_dir)
    return temp_dir


def write_filepath(filepath, task_type, task_id):
    dirpath = os.path.dirname(filepath)
    base = os.path.basename(filepath)
    if not _is_chief(task_type, task_id):
        dirpath = _get_temp_dir(dirpath, task_id)
    return os.path.join(dirpath, base)


def tell(**what):
    """Print what a test wants to know, in one line of its own."""
    print("\nTOLD", json.dumps(what), flush=True)


def fingerprint(weights):
    """The same for the same bits."""
    return hashlib.sha256(b"".join(weight.tobytes() for weight in weights)).hexdigest()
