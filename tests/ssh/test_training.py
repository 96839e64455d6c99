"""TensorFlow trains on two hosts that share nothing, and a worker that never joins does not cost the others an hour."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable

from launching import Launch, await_true
from rig import Host

Start = Callable[..., Launch]
Cluster = Callable[..., tuple[str, str]]
Hosts = tuple[Host, ...]

TRAINING = 400.0
"""Seconds that TensorFlow may take to start and train on a busy machine."""
TENSORFLOW = {"python": sys.executable}


JOIN = "import tensorflow as tf; tf.distribute.MultiWorkerMirroredStrategy()"
NOT_ON_HOST2 = 'if [ "$(hostname)" = host2 ]; then {}; else exec "$0" -c "$1"; fi'


def test_a_worker_whose_server_never_comes_up_is_named(launch: Start, cluster: Cluster, hosts: Hosts) -> None:
    options = cluster(*hosts[:2], defaults=TENSORFLOW, timeouts={"start": "4s"})
    started = launch(*options, "--", "sh", "-c", NOT_ON_HOST2.format("exec sleep 1000"), sys.executable, JOIN)

    assert started.wait(TRAINING) == 1
    assert "worker 1 on host2 could not be started: its server was not up 4 s after the first one" in started.last_words


RESTORED = """
import sys, keras, numpy, tensorflow as tf
newest = tf.train.latest_checkpoint(sys.argv[1] + "/checkpoints")
assert len(tf.train.load_checkpoint(newest).get_variable_to_shape_map()) > 5
model = keras.saving.load_model(sys.argv[1] + "/export/model.keras", compile=False)
print(newest.rpartition("/")[2], model(numpy.zeros((1, 8, 8, 1))).shape)
"""


def test_two_hosts_train_one_model_and_the_chiefs_files_come_home(
    launch: Start, cluster: Cluster, hosts: Hosts
) -> None:
    options = cluster(*hosts[:2], defaults=TENSORFLOW, collect_interval="200ms")
    started = launch(*options, "--", "python", "-m", "training", "--epochs", "5")
    checkpoints = started.runs / "latest" / "chief" / "checkpoints"
    await_true(lambda: (checkpoints / "checkpoint").exists(), "a checkpoint comes while the run goes on")
    assert started.wait(TRAINING) == 0

    log = started.log("worker-0").decode()
    assert "digits_cnn: 2 workers, 2 replicas, global batch 48" in log
    assert float(log.rpartition("held-out accuracy ")[2].split()[0]) > 0.9
    words = [sys.executable, "-c", RESTORED, str(checkpoints.parent)]
    quiet = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}
    restored = subprocess.run(words, env=quiet, capture_output=True, text=True)
    assert restored.stdout == "step-145 (1, 10)\n", restored.stderr
    assert "gathered checkpoints/step-29 (2 files, " in started.last_words
    assert "not brought" not in started.last_words
    assert not list(checkpoints.rglob("*temp*"))
