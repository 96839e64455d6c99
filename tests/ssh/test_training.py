"""TensorFlow trains on two hosts that share nothing, and a worker that never joins does not cost the others an hour."""

from __future__ import annotations

import sys
from collections.abc import Callable

from launching import Launch
from rig import Host

Start = Callable[..., Launch]
Cluster = Callable[..., tuple[str, str]]
Hosts = tuple[Host, ...]

TRAINING = 200.0
"""Seconds that TensorFlow may take to start and train on a busy machine."""
TENSORFLOW = {"python": sys.executable}


def test_two_hosts_train_one_model(launch: Start, cluster: Cluster, hosts: Hosts) -> None:
    started = launch(*cluster(*hosts[:2], defaults=TENSORFLOW), "--", "python", "-m", "training", "--epochs", "5")

    assert started.wait(TRAINING) == 0
    log = started.log("worker-0").decode()
    assert "digits_cnn: 2 workers, 2 replicas, global batch 48" in log
    accuracy = float(log.rpartition("held-out accuracy ")[2].split()[0])
    assert accuracy > 0.9


JOIN = "import tensorflow as tf; tf.distribute.MultiWorkerMirroredStrategy()"
NOT_ON_HOST2 = 'if [ "$(hostname)" = host2 ]; then {}; else exec "$0" -c "$1"; fi'


def test_a_worker_whose_server_never_comes_up_is_named(launch: Start, cluster: Cluster, hosts: Hosts) -> None:
    options = cluster(*hosts[:2], defaults=TENSORFLOW, timeouts={"start": "4s"})
    started = launch(*options, "--", "sh", "-c", NOT_ON_HOST2.format("exec sleep 1000"), sys.executable, JOIN)

    assert started.wait(TRAINING) == 1
    assert "worker 1 on host2 could not be started: its server was not up 4 s after the first one" in started.last_words


def test_a_worker_that_leaves_before_it_has_joined_is_named(launch: Start, cluster: Cluster, hosts: Hosts) -> None:
    options = cluster(*hosts[:2], defaults=TENSORFLOW, timeouts={"start": "4s"})
    started = launch(*options, "--", "sh", "-c", NOT_ON_HOST2.format("exit 0"), sys.executable, JOIN)

    assert started.wait(TRAINING) == 1
    assert "worker 1 on host2 could not be started: its server was not up 4 s after the first one" in started.last_words
