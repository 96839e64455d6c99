"""Workers that only wait, as TensorFlow does for a peer that is missing."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import portpicker
import pytest
from support.launching import Launch, await_true, program

from launcher.on_host.agent.messages import Event, WaitsElsewhere
from launcher.on_host.agent.ports import listened_at
from launcher.on_host.agent.processes import descendants, processes
from launcher.on_host.agent.rest import PATIENCE, has_busy_thread
from launcher.on_host.agent.watching import Watch
from launcher.on_host.agent.workers import Worker

Start = Callable[..., Launch]
Cluster = Callable[..., tuple[str, str]]
PATIENT = {"grace": "10m", "failure_grace": "10m"}


def last_signals(started: Launch) -> dict[str, int | None]:
    return {each["task"]: each["signal"] for each in started.events if each["type"] == "task_exited"}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_workers_that_all_wait_in_tensorflow_do_not_take_the_whole_grace(
    launch: Start, cluster: Cluster, number: int
) -> None:
    started = launch(*cluster(timeouts=PATIENT), *program("library", "wait"))
    started.await_log(b"ready", "worker-0", "worker-1")
    started.signal(number)

    assert started.wait() == 128 + number
    assert "worker 0 and worker 1 only waited in TensorFlow for 2 s: ended" in started.stderr
    assert last_signals(started) == {"worker-0": signal.SIGKILL, "worker-1": signal.SIGKILL}


@pytest.mark.parametrize(("manner", "done"), [("save", b"saved"), ("asleep", b"slept")])
def test_a_worker_that_saves_or_sleeps_gets_all_of_the_grace_and_its_peers_with_it(
    launch: Start, cluster: Cluster, manner: str, done: bytes
) -> None:
    started = launch(*cluster(timeouts=PATIENT), *program("library", "wait", manner))
    started.await_log(b"ready", "worker-0", "worker-1")
    started.signal(signal.SIGINT)

    assert started.wait() == 130
    assert done in started.log("worker-1")
    assert "worker 0 only waited in TensorFlow for 2 s: ended" in started.stderr
    assert last_signals(started) == {"worker-1": None, "worker-0": signal.SIGKILL}


def test_a_program_without_tensorflow_keeps_the_whole_grace(launch: Start, cluster: Cluster) -> None:
    started = launch(*cluster(timeouts={"grace": "4s"}), *program("library", "plain"))
    started.await_log(b"ready", "worker-0", "worker-1")
    started.signal(signal.SIGINT)

    assert started.wait() == 130
    assert "only waited" not in started.stderr
    assert not [each for each in started.events if each["type"] == "task_resting"]


# ---- servers that are not where the cluster says
def root_cause(started: Launch) -> dict[str, object]:
    cause: dict[str, object] = json.loads(started.stdout.splitlines()[-1])["root_cause"]
    return cause


def test_a_port_that_a_child_of_a_worker_takes_again_is_a_failure_for_connections_reach_any_of_both(
    launch: Start,
) -> None:
    started = launch("--workers", "1", "--json", *program("servers", "shared"))

    assert started.wait() == 1
    cause = root_cause(started)
    assert (cause["kind"], cause["task"]) == ("port_shared", "worker-0")
    assert "of worker 0 both serve TensorFlow at port" in started.stderr
    assert "take TF_CONFIG out of the environment of its child processes" in started.stderr


def test_a_port_that_two_tasks_take_is_a_failure(launch: Start) -> None:
    port = portpicker.pick_unused_port()
    started = launch("--workers", "2", "--json", *program("servers", str(port)))

    assert started.wait() == 1
    assert root_cause(started)["kind"] == "port_shared"
    assert f"of worker 0 and worker 1 both serve TensorFlow at port {port}" in started.stderr
    assert "let it use the TF_CONFIG that launch sets" in started.stderr


Watched = Callable[..., list[Event]]


@pytest.fixture
def watched(tmp_path: Path) -> Iterator[Watched]:
    """Run a program as a task, and look at it as the agent does, on a clock of its own; return what is told."""
    started: list[subprocess.Popen[bytes]] = []

    def watch(*arguments: str, until: float = 100.0) -> list[Event]:
        port = portpicker.pick_unused_port()
        task = {"cluster": {"worker": [f"localhost:{port}"]}, "task": {"type": "worker", "index": 0}}
        given = {"TF_CONFIG": json.dumps(task), "LAUNCH_ATTEMPT": "0", "LAUNCH_OUTPUT_DIR": str(tmp_path)}
        log = tmp_path / "worker-0.log"
        with log.open("wb") as output:
            words = program(*arguments)[1:]
            process = subprocess.Popen(words, env={**os.environ, **given}, stdout=output, start_new_session=True)
        started.append(process)
        worker = Worker("worker-0", process.pid, port, os.open(log, os.O_RDONLY), str(tmp_path / "progress"), 0)
        members = 2 if "inherited" in arguments else 1
        await_true(lambda: log.read_bytes().count(b"\n") == members, "the wait")
        tree = [process.pid, *descendants(process.pid, processes())]
        await_true(lambda: not any(map(has_busy_thread, tree)), "rest")
        told: list[Event] = []
        looks = Watch(told.append, now=0.0)
        for now in range(int(until)):
            worker.listens = bool(listened_at([port]))
            looks.look([worker], float(now))
        worker.log.close()
        return told

    yield watch
    for process in started:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def test_a_worker_that_waits_at_another_port_than_its_own_is_told_of_once(watched: Watched) -> None:
    port = portpicker.pick_unused_port()

    (told,) = watched("servers", str(port))

    assert isinstance(told, WaitsElsewhere)
    assert (told.task, told.ports, told.connected, told.dialled) == ("worker-0", [port], [], [])
    assert told.own != port


def test_a_worker_that_listens_nowhere_is_told_of(watched: Watched) -> None:
    (told,) = watched("servers", "nowhere")

    assert isinstance(told, WaitsElsewhere)
    assert told.ports == []


@pytest.mark.parametrize("words", [("servers", "own"), ("servers", "inherited"), ("library", "plain")])
def test_nothing_is_told_of_a_worker_that_waits_at_its_own_port_or_has_no_tensorflow(
    watched: Watched, words: tuple[str, ...]
) -> None:
    assert watched(*words) == []


def test_thirty_seconds_must_pass(watched: Watched) -> None:
    assert watched("servers", "nowhere", until=PATIENCE) == []
