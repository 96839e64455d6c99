"""TensorFlow trains on two hosts that share nothing, and neither losses nor strangers change what it learns."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from rig import Host, Rig
from support.launching import Launch, await_true, cluster_file
from support.warm_tensorflow import WarmTensorFlow

Start = Callable[..., Launch]
Cluster = Callable[..., tuple[str, str]]
Hosts = tuple[Host, ...]
Look = Callable[..., str]
RESET = "ConnectionResetError"

TRAINING = 400.0
"""Seconds that TensorFlow may take to start and train on a busy machine."""
TENSORFLOW = {"python": sys.executable}
EPOCHS = ("--", "python", "-m", "training", "--epochs", "12")
"""Enough for three faults on the way, and they take less time than the start."""


@pytest.fixture(scope="module")
def undisturbed(
    rig: Rig,
    shared_launches: Callable[[Path], AbstractContextManager[Start]],
    tmp_path_factory: pytest.TempPathFactory,
) -> Launch:
    """A training on two hosts that nothing has disturbed; a first checkpoint has come while it went on."""
    place = tmp_path_factory.mktemp("undisturbed")
    hosts = [{"host": host.name, "workers": 1} for host in rig.hosts[1:]]
    options = cluster_file(place, hosts, {}, {"defaults": TENSORFLOW, "collect_interval": "200ms"})
    with shared_launches(place) as launch:
        started = launch(*options, *EPOCHS)
        checkpoint = started.runs / "latest" / "chief" / "checkpoints" / "checkpoint"
        await_true(checkpoint.exists, "a checkpoint comes while the run goes on")
        assert started.wait(TRAINING) == 0
        assert not any(host.processes() for host in rig.hosts)
    return started


@pytest.fixture(scope="module")
def look(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Look]:
    """The last line that a program with TensorFlow writes of directories here: `look(PROGRAM, DIRECTORY, ...)`."""
    place = tmp_path_factory.mktemp("look")

    def said(program: str, *directories: Path) -> str:
        (place / "look.py").write_text(program)
        words = [str(place / "look.py"), *map(str, directories)]
        with (place / "said").open("w+b") as output:
            tensorflow.start(words, os.environ, place, output).wait(TRAINING)
        return (place / "said").read_text().splitlines()[-1]

    tensorflow = WarmTensorFlow()
    yield said
    tensorflow.close()


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


@pytest.mark.usefixtures("hosts")
def test_two_hosts_train_one_model_and_the_chiefs_files_come_home(undisturbed: Launch, look: Look) -> None:
    log = undisturbed.log("worker-0").decode()
    chief = undisturbed.run_directory / "chief"

    assert "digits_cnn: 2 workers, 2 replicas, global batch 48" in log
    assert float(log.rpartition("held-out accuracy ")[2].split()[0]) > 0.9
    assert look(RESTORED, chief) == "step-348 (1, 10)"
    assert "gathered checkpoints/step-29 (2 files, " in undisturbed.last_words
    assert "not brought" not in undisturbed.last_words
    assert "stays on" not in undisturbed.last_words
    assert not list((chief / "checkpoints").rglob("*temp*"))


FURTHEST = """
import sys, numpy, tensorflow as tf
one, other = (tf.train.load_checkpoint(tf.train.latest_checkpoint(path)) for path in sys.argv[1:])
names = [name for name in one.get_variable_to_shape_map() if "OBJECT_GRAPH" not in name and "run/" not in name]
assert len(names) > 5
print(max(float(numpy.max(numpy.abs(one.get_tensor(name) - other.get_tensor(name)))) for name in names))
"""
"""How far the numbers of two checkpoints are from each other."""


def see_the_same_weights(look: Look, *runs: Launch) -> None:
    said = look(FURTHEST, *(each.run_directory / "chief" / "checkpoints" for each in runs))
    assert float(said) < 1e-4


def test_without_a_command_the_training_program_that_comes_along_runs_also_where_a_hosts_user_has_one(
    launch: Start, cluster: Cluster, hosts: Hosts
) -> None:
    hosts[0].write("/home/tb/training/__main__.py", b"print('the training of the user')")
    options = cluster({"host": hosts[0].name, "tasks": {"worker": 1, "ps": 1}}, defaults=TENSORFLOW)
    started = launch(*options)

    assert started.wait(TRAINING) == 1
    assert "which has only chief and worker tasks" in started.log("ps-0").decode()


def pid(started: Launch, task: str) -> int:
    """The number that the newest process of a task has on its host."""
    return next(e["pid"] for e in reversed(started.events) if e["type"] == "task_started" and e["task"] == task)


def test_a_run_that_loses_a_worker_its_chief_and_its_host_ends_with_the_weights_of_an_undisturbed_one(
    launch: Start, cluster: Cluster, hosts: Hosts, undisturbed: Launch, look: Look
) -> None:
    options = cluster(
        *hosts[:2],
        defaults=TENSORFLOW,
        collect_interval="200ms",
        restart={"max_restarts": 3, "backoff": 0},
        timeouts={"lease": "5s"},
    )
    started = launch(*options, *EPOCHS)
    started.await_log(b"epoch  3/", "worker-0")
    hosts[1].process(pid(started, "worker-1")).kill()
    started.await_log(b"epoch  6/", "worker-0", attempt=1)
    hosts[0].process(pid(started, "worker-0")).kill()
    started.await_log(b"epoch  9/", "worker-0", attempt=2)
    hosts[0].boot()

    assert started.wait(TRAINING) == 0
    assert started.run_state["result"]["attempts"] == 4
    see_the_same_weights(look, undisturbed, started)


# ---- strangers
READ_FILE = """
import sys, tensorflow as tf
with tf.compat.v1.Graph().as_default():
    read = tf.io.read_file("/etc/hostname")
    config = tf.compat.v1.ConfigProto(operation_timeout_in_ms=5000)
    try:
        with tf.compat.v1.Session(f"grpc://{sys.argv[1]}:{sys.argv[2]}", config=config) as session:
            print("read", session.run(read))
    except tf.errors.OpError as error:
        print(type(error).__name__)
"""
TRY = """
import collections, socket, sys
places = [(address, int(port)) for address, port in zip(sys.argv[1::2], sys.argv[2::2])]
found = collections.Counter()
for place in places * 20:
    try:
        with socket.create_connection(place, 60) as connection:
            connection.send(b"PRI * HTTP/2.0\\r\\n\\r\\nSM\\r\\n\\r\\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0]))
            said = connection.recv(100)
            found["gRPC" if said[3:4] == bytes([4]) else "something else" if said else "closed"] += 1
    except OSError as error:
        found[type(error).__name__] += 1
print(*found.elements())
"""
"""Begin to speak as gRPC does, again and again; its answer begins with a frame of the kind 4 (SETTINGS)."""


@contextlib.contextmanager
def attacked(source: Host, *places: str) -> Iterator[Counter[str]]:
    """In the block a host connects to these places without a pause; what came of it, by kind."""
    found: Counter[str] = Counter()
    enough = threading.Event()

    def attack() -> None:
        while not enough.is_set():
            found.update(source.run([sys.executable, "-c", TRY, *places]).stdout.split())

    attacker = threading.Thread(target=attack)
    attacker.start()
    try:
        yield found
    finally:
        enough.set()
        attacker.join()


def test_training_goes_on_while_a_stranger_tries_without_a_pause_and_ends_with_the_same_weights(
    launch: Start, cluster: Cluster, hosts: Hosts, undisturbed: Launch, look: Look
) -> None:
    started = launch(*cluster(*hosts[:2], defaults=TENSORFLOW), *EPOCHS)
    started.await_event("ports_reserved", count=2)
    reserved = [each["ports"] for each in started.events if each["type"] == "ports_reserved"]
    ports = {task: str(port) for each in reserved for task, port in each.items()}
    first, second = ports["worker-0"], ports["worker-1"]
    one, other = (host.addresses[0] for host in hosts[:2])
    with attacked(hosts[2], one, first, other, second) as found:
        started.await_event("task_listening", count=2)
        from_a_host_of_the_run = hosts[0].run([sys.executable, "-c", TRY, other, second]).stdout
        read = hosts[2].run([sys.executable, "-c", READ_FILE, one, first]).stdout
        started.await_log(b"epoch  8/", "worker-0")
    assert started.wait(TRAINING) == 0
    assert read in ("UnavailableError\n", "DeadlineExceededError\n")
    assert "gRPC" in from_a_host_of_the_run
    assert found["gRPC"] == 0
    assert found[RESET] > 100

    see_the_same_weights(look, undisturbed, started)
