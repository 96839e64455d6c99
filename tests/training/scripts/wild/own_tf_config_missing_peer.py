"""A cluster of its own with one worker more than are started: TensorFlow waits in C++ for the one that never comes."""

import json
import os
import sys

task = json.loads(os.environ["TF_CONFIG"])["task"]
os.environ["TF_CONFIG"] = json.dumps({"cluster": {"worker": sys.argv[1:]}, "task": task})

import tensorflow as tf  # noqa: E402

print("waiting for everybody", flush=True)
tf.distribute.MultiWorkerMirroredStrategy()
print("everybody is there", flush=True)
