"""TensorFlow trains on two hosts that share nothing, and a worker that never joins does not cost the others an hour."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable

from rig import Host
from support.launching import Launch, await_true

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
    assert "stays on" not in started.last_words
    assert not list(checkpoints.rglob("*temp*"))


FURTHEST = """
import sys, numpy, tensorflow as tf
one, other = (tf.train.load_checkpoint(tf.train.latest_checkpoint(path)) for path in sys.argv[1:])
names = [name for name in one.get_variable_to_shape_map() if "OBJECT_GRAPH" not in name and "run/" not in name]
assert len(names) > 5
print(max(float(numpy.max(numpy.abs(one.get_tensor(name) - other.get_tensor(name)))) for name in names))
"""
"""How far the numbers of two checkpoints are from each other."""


def test_without_a_command_the_training_program_that_comes_along_runs_also_where_a_hosts_user_has_one(
    launch: Start, cluster: Cluster, hosts: Hosts
) -> None:
    hosts[0].write("/home/tb/training/__main__.py", b"print('the training of the user')")
    options = cluster({"host": hosts[0].name, "tasks": {"worker": 1, "ps": 1}}, defaults=TENSORFLOW)
    started = launch(*options)

    assert started.wait(TRAINING) == 1
    assert "which has only chief and worker tasks" in started.log("ps-0").decode()


LONG_ENOUGH = ("--", "python", "-m", "training", "--epochs", "12")
"""For three faults on the way."""


def pid(started: Launch, task: str) -> int:
    """The number that the newest process of a task has on its host."""
    return next(e["pid"] for e in reversed(started.events) if e["type"] == "task_started" and e["task"] == task)


def test_a_run_that_loses_a_worker_its_chief_and_its_host_ends_with_the_weights_of_an_undisturbed_one(
    launch: Start, cluster: Cluster, hosts: Hosts
) -> None:
    undisturbed = launch(*cluster(*hosts[1:3], defaults=TENSORFLOW), *LONG_ENOUGH)
    assert undisturbed.wait(TRAINING) == 0
    options = cluster(
        *hosts[:2],
        defaults=TENSORFLOW,
        collect_interval="200ms",
        restart={"max_restarts": 3, "backoff": 0},
        timeouts={"lease": "5s"},
    )
    started = launch(*options, *LONG_ENOUGH)
    started.await_log(b"epoch  3/", "worker-0")
    hosts[1].process(pid(started, "worker-1")).kill()
    started.await_log(b"epoch  6/", "worker-0", attempt=1)
    hosts[0].process(pid(started, "worker-0")).kill()
    started.await_log(b"epoch  9/", "worker-0", attempt=2)
    hosts[0].boot()

    assert started.wait(TRAINING) == 0
    assert started.run_state["result"]["attempts"] == 4
    checkpoints = [str(each.run_directory / "chief" / "checkpoints") for each in (undisturbed, started)]
    compared = subprocess.run([sys.executable, "-c", FURTHEST, *checkpoints], capture_output=True, text=True)
    assert float(compared.stdout) < 1e-4, compared.stderr
