"""TensorFlow waits in C++ for a worker that nobody starts: it is told of, and Ctrl-C ends it at once."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import portpicker
from support.launching import MARK, ROOT, launches, nothing_left

QUIET = {"TF_CPP_MIN_LOG_LEVEL": "2", "CUDA_VISIBLE_DEVICES": "-1"}
PROGRAM = ROOT / "tests/training/scripts/wild/own_tf_config_missing_peer.py"


def test_workers_that_wait_in_another_cluster_are_told_of_and_take_no_grace_at_ctrl_c(tmp_path: Path) -> None:
    ports = [portpicker.pick_unused_port() for _ in range(3)]
    addresses = [f"localhost:{port}" for port in ports]
    (tmp_path / "cluster.yaml").write_text("hosts: [{host: localhost, workers: 2}]\ntimeouts: {grace: 10m}\n")
    options = ("--cluster", tmp_path / "cluster.yaml", "--keep-tf-config", "--")
    inherited = {key: value for key, value in os.environ.items() if not key.startswith(("LAUNCH_", "TF_"))}
    with nothing_left() as mark:
        environment = {**inherited, "PYTHONPATH": str(ROOT), MARK: mark, **QUIET}
        with launches(tmp_path, environment) as launch:
            started = launch(*options, "python", PROGRAM, *addresses)
            started.await_event("task_waits_elsewhere", count=2)
            started.signal(signal.SIGINT)
            assert started.wait() == 130

    told = {each["task"]: each["ports"] for each in started.events if each["type"] == "task_waits_elsewhere"}
    assert told == {"worker-0": [ports[0]], "worker-1": [ports[1]]}
    for worker in (0, 1):
        assert f"worker {worker} on localhost has done nothing for 30 s: it listens at port {ports[worker]}" in (
            started.stderr
        )
    assert "worker 0 and worker 1 only waited in TensorFlow for 2 s: ended" in started.stderr
