"""TensorFlow's server obeys this machine alone: whoever connects from elsewhere gets no session with it."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from rig import missing
from rig.lab import Lab
from support.launching import MARK, launches, nothing_left

REPOSITORY = Path(__file__).resolve().parents[2]
STRANGER = "203.0.113.7"
SERVE = """
import tensorflow as tf
resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
server = tf.distribute.Server(resolver.cluster_spec(), job_name="worker", task_index=resolver.task_id, protocol="grpc")
print("serves at", server.target, flush=True)
server.join()
"""
READ_FILE = """
import sys, tensorflow as tf
with tf.compat.v1.Graph().as_default():
    read = tf.io.read_file(sys.argv[1])
    for target in sys.argv[2:]:
        patience = 60000 if "127." in target else 3000
        config = tf.compat.v1.ConfigProto(operation_timeout_in_ms=patience)
        try:
            with tf.compat.v1.Session(target, config=config) as session:
                print(session.run(read).decode())
        except tf.errors.OpError as error:
            print(type(error).__name__)
"""


@pytest.fixture
def lab() -> Iterator[Lab]:
    """A network of its own, in which this machine has a further address."""
    if reason := missing():
        pytest.skip(reason)
    lab = Lab()
    try:
        lab.set_up_network(f"address add {STRANGER}/32 dev lo")
        yield lab
    finally:
        lab.close()


def test_a_session_from_elsewhere_reads_no_file_and_one_from_here_does(lab: Lab, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("nobody's business")
    with nothing_left() as mark:
        env = {"PYTHONPATH": str(REPOSITORY), "PATH": "/usr/bin:/bin", "TMPDIR": str(tmp_path), MARK: mark}
        env |= {"HOME": str(tmp_path), "TF_CPP_MIN_LOG_LEVEL": "2", "CUDA_VISIBLE_DEVICES": "-1"}
        with launches(tmp_path, env, lab.on_login_machine) as start:
            started = start("--workers", "1", "--", sys.executable, "-c", SERVE)
            started.await_log(b"serves at", "worker-0")
            found = re.search(rb"serves at grpc://127.0.0.1:(\d+)", started.log("worker-0"))
            assert found
            targets = [f"grpc://{address}:{found[1].decode()}" for address in ("127.0.0.1", STRANGER, "127.0.0.1")]
            words = [*lab.on_login_machine, sys.executable, "-c", READ_FILE, secret, *targets]
            tried = subprocess.run(words, env=env, capture_output=True, text=True)
            started.signal(15)
            assert started.wait() == 143

    before, refused, after = tried.stdout.splitlines()
    assert before == after == "nobody's business", tried.stderr
    assert refused in ("UnavailableError", "DeadlineExceededError")  # gRPC tries for as long as it may
    assert f"worker 0 on localhost: a connection from {STRANGER} was refused" in started.stderr
