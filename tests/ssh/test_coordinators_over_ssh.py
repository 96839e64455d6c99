"""A chief that coordinates workers on other hosts goes on when one of them dies."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import psutil
from rig import Host
from rig.processes import command_of
from support.launching import PROGRAMS, Launch, await_true

Start = Callable[..., Launch]
Cluster = Callable[..., tuple[str, str]]
Hosts = tuple[Host, ...]
SERVERS = 4


def worker_of(host: Host) -> psutil.Process:
    """The process of a host's worker."""
    return next(each for each in host.processes() if "coordinated.py" in " ".join(command_of(each)))


def test_a_worker_on_another_host_is_started_again_alone(
    launch: Start, cluster: Cluster, hosts: Hosts, tmp_path: Path
) -> None:
    enough = tmp_path / "enough"
    here = {"host": "localhost", "tasks": {"chief": 1, "ps": 1}}
    command = ["python", "coordinated.py", str(enough)]
    restart = {"max_restarts": 1, "backoff": "100ms"}
    started = launch(*cluster(here, *hosts[:2], command=command, sync=str(PROGRAMS), restart=restart))
    started.await_event("task_listening", count=SERVERS)
    worker_of(hosts[1]).kill()
    started.await_event("task_listening", count=SERVERS + 1)
    await_true(lambda: started.log("worker-1").count(b"\n") == 2, "what it writes the second time")
    enough.touch()

    assert started.succeeded()
    first, second = started.log("worker-1").splitlines()
    assert first == second
    assert started.stdout.count("worker 1 serves") == 2
    assert "the chief goes on; worker 1 is started again" in started.stderr
