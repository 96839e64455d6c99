"""After a failure every host starts from the chief's newest checkpoint, without a disk that all of them share."""

from __future__ import annotations

import signal
from collections.abc import Callable

import pytest
from rig import Host
from support.launching import Launch, await_true

Start = Callable[..., Launch]
Cluster = Callable[..., tuple[str, str]]
Hosts = tuple[Host, ...]

SAVE = r"""
save() {
    mkdir -p "$LAUNCH_OUTPUT_DIR/checkpoints" && cd "$LAUNCH_OUTPUT_DIR/checkpoints" || exit
    head -c "$2" /dev/urandom >"step-$1.data-00000-of-00001"
    printf 'index W\373\200\213$uG\333' >"step-$1.index"
    printf 'model_checkpoint_path: "%s/step-%s"\n' "$PWD" "$1" >checkpoint.tmp && mv checkpoint.tmp checkpoint
}
"""
"""A checkpoint, named by its absolute path: `save STEP BYTES`."""
FOUND = 'cd "$LAUNCH_OUTPUT_DIR" && find . -type f | sort | xargs sha256sum'
AGAIN = {"restart": {"max_restarts": 1, "backoff": 0}, "collect_interval": 0}
WAIT = "while [ ! -e ~/go ]; do sleep .05; done"


def program(chief: str, other: str = ":", then: str = FOUND) -> tuple[str, ...]:
    """The first attempt does this on the chief and on the other worker; a later one tells which files it finds."""
    first = f"case $TF_CONFIG in *'\"index\": 0}}}}') {chief};; *) {other};; esac"
    return ("--", "sh", "-c", f'{SAVE}\nif [ "$LAUNCH_ATTEMPT" = 0 ]; then {first}; else {then}; fi')


def found(started: Launch, attempt: int = 1) -> tuple[dict[str, str], dict[str, str]]:
    """What each of the two workers has found: path -> SHA-256."""
    each = [started.log(f"worker-{index}", attempt=attempt).decode().split() for index in (0, 1)]
    chief, other = (dict(zip(words[1::2], words[::2], strict=True)) for words in each)
    return chief, other


def without_names(files: dict[str, str]) -> dict[str, str]:
    """All but the file that names the newest checkpoint: its text differs where the directory does."""
    return {path: digest for path, digest in files.items() if not path.endswith("/checkpoint")}


def saved(host: Host) -> bool:
    """The first checkpoint is complete there."""
    return host.run("test -e ~/.tf-launch/runs/*/output/checkpoints/checkpoint", check=False).returncode == 0


def test_a_worker_that_is_killed_costs_no_step(launch: Start, cluster: Cluster, hosts: Hosts) -> None:
    chief = 'save 4 1000; save 5 1000000; echo 5 >"$LAUNCH_OUTPUT_DIR/epoch.txt"; exec sleep 1000'
    started = launch(*cluster(*hosts[:2], **AGAIN), *program(chief, f"{WAIT}; kill -9 $$"))
    await_true(lambda: saved(hosts[0]), "the checkpoint is saved")
    hosts[1].write("go", b"")

    assert started.succeeded()
    chief_found, other_found = found(started)
    newest = {path: digest for path, digest in without_names(chief_found).items() if "step-4" not in path}
    assert without_names(other_found) == newest
    assert len(newest) == 3
    (output,) = hosts[1].run("echo ~/.tf-launch/runs/*/output").stdout.split()
    assert hosts[1].read(f"{output}/checkpoints/checkpoint") == b'model_checkpoint_path: "step-5"\n'
    assert "[launch] host2: brought checkpoints/step-5 (1.0 MB)\n" in started.stderr
    assert not hosts[1].run("ls -A ~/.tf-launch/runs/*/ | grep bringing", check=False).stdout


def test_a_chief_that_is_killed_costs_no_step(launch: Start, cluster: Cluster, hosts: Hosts) -> None:
    started = launch(*cluster(*hosts[:2], **AGAIN), *program("save 5 100000; kill -9 $$", "exec sleep 1000"))

    assert started.succeeded()
    chief_found, other_found = found(started)
    assert without_names(other_found) == without_names(chief_found)
    assert len(chief_found) == 3


def test_a_chief_of_this_machine_gives_its_checkpoint(launch: Start, cluster: Cluster, hosts: Hosts) -> None:
    here = {"host": "localhost", "address": "10.77.0.1"}
    started = launch(*cluster(here, hosts[0], **AGAIN), *program("save 5 100000; exit 3", "exec sleep 1000"))

    assert started.succeeded()
    chief_found, other_found = found(started)
    assert without_names(other_found) == without_names(chief_found)
    assert "[launch] host1: brought checkpoints/step-5 (100.0 kB)" in started.stderr


def test_a_host_that_comes_back_empty_starts_with_all_others(launch: Start, cluster: Cluster, hosts: Hosts) -> None:
    """First the chief's host loses its power and its disk, then the other one."""
    then = f'if [ "$LAUNCH_ATTEMPT" = 1 ]; then {FOUND}; exec sleep 1000; else {FOUND}; fi'
    options = cluster(
        *hosts[:2],
        timeouts={"lease": "1s"},
        restart={"max_restarts": 2, "backoff": 0},
        collect_interval="100ms",
        ssh={"connect_timeout": "2s"},
    )
    started = launch(*options, *program("save 5 100000; exec sleep 1000", "exec sleep 1000", then))
    await_true(lambda: (started.run_directory / "chief/checkpoints/checkpoint").exists(), "the checkpoint comes here")
    hosts[0].crash()
    started.await_event("host_lost", count=2)  # once as it goes, once as it is not back yet
    hosts[0].boot()
    started.await_log(b"step-5.index", "worker-0", "worker-1", attempt=1)
    hosts[1].boot()

    assert started.succeeded()
    for attempt in (1, 2):
        chief_found, other_found = found(started, attempt)
        assert chief_found == other_found
        assert len(chief_found) == 3


def test_a_run_that_is_resumed_goes_on_from_the_same_step(launch: Start, cluster: Cluster, hosts: Hosts) -> None:
    first = launch(*cluster(*hosts[:2]), *program("save 5 100000; exit 3", "exec sleep 1000"))
    assert first.wait() == 1
    again = launch(*cluster(*hosts[:2]), "--resume", "latest", *program(":"), runs=first.runs)

    assert again.succeeded()
    chief_found, other_found = found(again)
    assert without_names(other_found) == without_names(chief_found)
    assert len(chief_found) == 3


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_what_was_on_its_way_when_the_launcher_ended_is_gone_and_comes_with_the_next_run(
    launch: Start, cluster: Cluster, hosts: Hosts, number: int
) -> None:
    hosts[1].limit_rate("2mbit")
    started = launch(*cluster(*hosts[:2], **AGAIN), *program("save 5 20000000; exit 3", "exec sleep 1000"))
    bringing = "ls -A ~/.tf-launch/runs/*/.bringing-*"
    await_true(lambda: hosts[1].run(bringing, check=False).returncode == 0, "the first bytes come")
    started.signal(number)

    assert started.wait() in (130, -number)
    await_true(lambda: hosts[1].run(bringing, check=False).returncode, "nothing of it is left")
    assert not hosts[1].run("find ~/.tf-launch/runs/*/output -type f").stdout
    hosts[1].lift_rate()
    again = launch(*cluster(*hosts[:2]), "--resume", "latest", *program(":"), runs=started.runs)

    assert again.succeeded()
    chief_found, other_found = found(again)
    assert without_names(other_found) == without_names(chief_found)
    assert len(chief_found) == 3


def test_a_checkpoint_on_a_slow_link_keeps_nobody_from_being_heard(
    launch: Start, cluster: Cluster, hosts: Hosts
) -> None:
    hosts[1].limit_rate("8mbit")
    options = cluster(*hosts[:2], timeouts={"lease": "1s"}, **AGAIN)
    started = launch(*options, *program("save 5 5000000; exit 3", "exec sleep 1000"))

    assert started.succeeded()
    assert "host2: brought checkpoints/step-5 (5.0 MB)" in started.stderr
    assert "lost" not in started.stderr
