"""Programs that want to be told their place in the cluster as an argument, or in a variable of their own."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import portpicker
from support.last_line import last_line
from support.launching import Launch

WILD = Path(__file__).resolve().parent / "scripts" / "wild"


def two_ports_in_a_row() -> int:
    """The first of two free ports."""
    while not portpicker.is_port_free((port := portpicker.pick_unused_port()) + 1):
        pass
    return port


def test_a_chief_that_reads_flags_trains_with_a_worker_that_reads_its_environment(
    launched: Callable[..., Launch], python: list[str], tmp_path: Path
) -> None:
    port = two_ports_in_a_row()
    worker = f"127.0.0.1:{port + 1}"
    flags = ["--job_name={type}", "--task_index={index}", "--chief_hosts={chief_address}", f"--worker_hosts={worker}"]
    file = {
        "hosts": [{"host": "localhost", "tasks": {"chief": 1, "worker": 1}, "ports": f"{port}-{port + 1}"}],
        "defaults": {
            "env": {
                "PMI_RANK": "{rank}",
                "PMI_SIZE": "{workers}",
                "NODE_LIST": f"{{chief_address}},{worker}",
                "WORKER_NAME": "{host}-{type}-{index}",
            }
        },
        "per_task": {
            "chief": [*python, str(WILD / "ranks_by_flags.py"), *flags],
            "worker": [*python, str(WILD / "ranks_in_environment.py")],
        },
    }
    cluster = tmp_path / "cluster.yaml"
    cluster.write_text(json.dumps(file))

    started = launched("--cluster", cluster)

    assert started.succeeded()
    assert last_line(started.log("chief-0").decode()) == "chief 0 of 2: slope 3.00"
    assert last_line(started.log("worker-0").decode()) == "rank 1 of 2 on localhost-worker-0: slope 3.00"
