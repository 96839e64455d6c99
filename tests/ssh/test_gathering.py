"""What a run makes on other hosts comes here: while it goes on, at its end however it ends, and later if need be."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from rig import Host, Rig
from support.launching import PATIENCE, Launch, await_true, disk

Start = Callable[..., Launch]
Cluster = Callable[..., tuple[str, str]]
Collect = Callable[..., subprocess.CompletedProcess[str]]
Hosts = tuple[Host, ...]

SAVE = r"""
save() {
    mkdir -p "$LAUNCH_OUTPUT_DIR/checkpoints" "$LAUNCH_OUTPUT_DIR/export" && cd "$LAUNCH_OUTPUT_DIR/checkpoints" || exit
    head -c "$2" /dev/urandom >"step-$1.data-00000-of-00001"
    printf 'index W\373\200\213$uG\333' >"step-$1.index"
    printf 'model_checkpoint_path: "step-%s"\n' "$1" >checkpoint.tmp && mv checkpoint.tmp checkpoint
    echo "saved $1"
}
"""
"""A checkpoint as TensorFlow leaves it: `save STEP BYTES`."""
STAY = "exec 2>/dev/null; trap 'exit 0' INT TERM; while :; do sleep .1; done"
"""Without what some shells say of a sleep that a signal has ended."""
AT_THE_END = {"collect_interval": 0}
OFTEN = {"collect_interval": "100ms"}
SIZE = 6_000_000


def chief(does: str) -> tuple[str, ...]:
    """A program that does this on the chief, and on no other worker anything."""
    return ("--", "sh", "-c", SAVE + f"case $TF_CONFIG in *'\"index\": 0}}}}') {does};; esac")


@pytest.fixture
def collect(rig: Rig, environment: dict[str, str], tmp_path: Path) -> Collect:
    """Run `launch collect` on the login machine."""

    def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
        words = [*rig.login.words, sys.executable, "-m", "launcher", "collect", *map(str, arguments)]
        return subprocess.run(words, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE)

    return run


def there(host: Host) -> dict[str, bytes]:
    """Every file that the run on this host has put out."""
    found = host.run("cd ~/.tf-launch/runs/*/output && find . -type f").stdout.split()
    directory = host.run("cd ~/.tf-launch/runs/*/output && pwd").stdout.strip()
    return {path[2:]: host.read(f"{directory}/{path}") for path in found}


def here(started: Launch) -> dict[str, bytes]:
    """What of it has come."""
    chief = started.run_directory / "chief"
    return {str(path.relative_to(chief)): path.read_bytes() for path in chief.rglob("*") if path.is_file()}


def part(started: Launch) -> int:
    """Bytes of a file that is on its way."""
    return sum(path.stat().st_size for path in (started.run_directory / ".gathering").glob("*.part"))


# ---- when
def test_at_the_end_everything_is_here(launch: Start, cluster: Cluster, hosts: Hosts) -> None:
    program = 'save 5 100000; echo model >../export/model.keras; echo "{}" >"$LAUNCH_PROGRESS"'
    started = launch(*cluster(*hosts[:2], **AT_THE_END), *chief(program))

    assert started.succeeded()
    assert here(started) == there(hosts[0])
    assert len(here(started)) == 4
    assert "the chief's files, in runs/" in started.last_words
    assert started.log("worker-0") == b"saved 5\n"
    assert (started.run_directory / "attempt-0" / "worker-0.progress.jsonl").read_bytes() == b"{}\n"
    assert not (started.run_directory / ".gathering").exists()


def test_whatever_the_chief_calls_its_files_they_come_and_what_stays_is_told(
    launch: Start, cluster: Cluster, hosts: Hosts
) -> None:
    own = 'cd "$LAUNCH_OUTPUT_DIR"; mkdir ckpt cache; echo weights >ckpt/w; echo it >model.txt; echo slow >cache/x'
    other = 'case $TF_CONFIG in *\'"index": 1}}\') echo mine >"$LAUNCH_OUTPUT_DIR/own.csv";; esac'
    started = launch(*cluster(*hosts[:2], **AT_THE_END), *chief(own)[:-1], f"{chief(own)[-1]}; {other}")

    assert started.succeeded()
    assert here(started) == {"ckpt/w": b"weights\n", "model.txt": b"it\n"}
    (output,) = hosts[0].run("echo ~/.tf-launch/runs/*/output").stdout.split()
    assert f"[launch] stays on host1, in {output}: cache (1 file, 5 B)" in started.last_words
    assert f"[launch] stays on host2, in {output}: own.csv (1 file, 5 B)" in started.last_words
    assert "/chief: ckpt (1 file, 8 B), model.txt (1 file, 3 B)" in started.last_words


def test_a_checkpoint_is_here_while_the_run_goes_on(launch: Start, cluster: Cluster, hosts: Hosts) -> None:
    started = launch(*cluster(hosts[0], **OFTEN), *chief(f"save 5 100000; {STAY}"))
    await_true(lambda: "checkpoints/checkpoint" in here(started), "the checkpoint comes")
    assert here(started) == there(hosts[0])
    started.signal(signal.SIGINT)

    assert started.wait() == 130
    assert "gathered checkpoints/step-5 (2 files, 100.0 kB)" in started.last_words


@pytest.mark.parametrize(("ending", "code"), [("exit 3", 1), ("kill -9 $$", 1)])
def test_after_a_failure_everything_is_here(
    launch: Start, cluster: Cluster, hosts: Hosts, ending: str, code: int
) -> None:
    started = launch(*cluster(hosts[0], **AT_THE_END), *chief(f"save 5 100000; {ending}"))

    assert started.wait() == code
    assert here(started) == there(hosts[0])
    assert started.log("worker-0") == b"saved 5\n"


def test_what_is_saved_after_ctrl_c_is_here(launch: Start, cluster: Cluster, hosts: Hosts) -> None:
    stay = "trap 'save 6 100000; exit 0' INT TERM; save 5 1000; while :; do sleep .1; done 2>/dev/null"
    started = launch(*cluster(hosts[0], **AT_THE_END), *chief(stay))
    started.await_log(b"saved 5", "worker-0")
    started.signal(signal.SIGINT)

    assert started.wait() == 130
    assert "checkpoints/step-6.index" in here(started)
    assert here(started) == there(hosts[0])


def test_a_chief_of_this_machine_needs_no_gathering(launch: Start, cluster: Cluster, hosts: Hosts) -> None:
    local = {"host": "localhost", "address": "10.77.0.1"}
    started = launch(*cluster(local, hosts[0], **OFTEN), *chief("save 5 100000"))

    assert started.succeeded()
    assert len(here(started)) == 3
    assert not (started.run_directory / "gathered.jsonl").exists()


def test_a_resumed_run_brings_only_what_is_new(launch: Start, cluster: Cluster, hosts: Hosts) -> None:
    first = launch(*cluster(hosts[0], **AT_THE_END), *chief(f"save 5 {SIZE}"))
    assert first.succeeded()
    before = (first.run_directory / "chief/checkpoints/step-5.data-00000-of-00001").stat()
    again = launch(*cluster(hosts[0], **AT_THE_END), "--resume", "latest", *chief("save 6 1000"), runs=first.runs)

    assert again.succeeded()
    assert here(first) == there(hosts[0])
    after = (first.run_directory / "chief/checkpoints/step-5.data-00000-of-00001").stat()
    assert after.st_ino == before.st_ino


def test_progress_on_the_chiefs_host_counts_before_it_is_here(launch: Start, cluster: Cluster, hosts: Hosts) -> None:
    options = cluster(hosts[0], restart={"max_restarts": 3, "backoff": 0}, **AT_THE_END)
    started = launch(*options, *chief('save "$LAUNCH_ATTEMPT" 1000; exit 3'))

    assert started.wait() == 1
    assert started.run_state["result"]["attempts"] == 4
    assert here(started) == there(hosts[0])


# ---- the user does not wait
def test_another_ctrl_c_leaves_the_files_there(launch: Start, cluster: Cluster, hosts: Hosts, collect: Collect) -> None:
    hosts[0].limit_rate("10mbit")
    started = launch(*cluster(hosts[0], **AT_THE_END), *chief(f"save 5 {SIZE}"))
    await_true(lambda: part(started), "the first bytes come")
    started.signal(signal.SIGINT)

    assert started.wait() == 130
    assert "the chief's files and the logs of worker-0 were not all brought from host1" in started.stderr
    assert f"-m launcher collect {started.runs.name}/" in started.stderr
    hosts[0].lift_rate()
    assert collect(started.run_directory).returncode == 0
    assert here(started) == there(hosts[0])


# ---- the host is away
def test_what_a_lost_host_has_comes_when_it_is_back(
    launch: Start, cluster: Cluster, hosts: Hosts, collect: Collect
) -> None:
    options = cluster(hosts[0], timeouts={"lease": "1s"}, ssh={"connect_timeout": "1s"}, **AT_THE_END)
    started = launch(*options, *chief(f"save 5 100000; {STAY}"))
    started.await_log(b"saved 5", "worker-0")
    hosts[0].partition()

    assert started.wait() == 1
    assert "host1 is away: " in started.stderr
    assert f"-m launcher collect {started.runs.name}/" in started.stderr
    assert here(started) == {}
    away = collect(started.run_directory)
    assert (away.returncode, "host1 is away" in away.stderr) == (3, True)

    hosts[0].heal()
    back = collect(started.run_directory)
    assert back.returncode == 0, back.stderr
    assert "[launch] brought from host1: " in back.stderr
    assert "(100.0 kB had to be sent)" in back.stderr
    assert here(started) == there(hosts[0])
    assert "[launch] nothing new on host1" in collect(started.run_directory).stderr


def test_a_broken_link_costs_only_what_was_on_its_way(
    launch: Start, cluster: Cluster, hosts: Hosts, collect: Collect
) -> None:
    hosts[0].limit_rate("20mbit")
    started = launch(*cluster(hosts[0], **AT_THE_END), *chief(f"save 5 {SIZE}"))
    await_true(lambda: part(started) > SIZE / 4, "a part of the file comes")
    hosts[0].kill_ssh_sessions()

    assert started.wait() == 3
    assert "host1 is away" in started.stderr
    kept = part(started)
    hosts[0].lift_rate()
    back = collect(started.run_directory)
    assert back.returncode == 0, back.stderr
    assert kept > SIZE / 4
    assert f"({(SIZE - kept) / 1e6:.1f} MB had to be sent)" in back.stderr
    assert here(started) == there(hosts[0])


def test_after_a_restart_on_a_new_connection_everything_is_here(launch: Start, cluster: Cluster, hosts: Hosts) -> None:
    first = f'if [ "$LAUNCH_ATTEMPT" = 0 ]; then save 5 100000; {STAY}; else save 6 100000; fi'
    started = launch(*cluster(hosts[0], restart={"max_restarts": 1, "backoff": 0}, **OFTEN), *chief(first))
    await_true(lambda: "checkpoints/checkpoint" in here(started), "the first checkpoint comes")
    hosts[0].kill_ssh_sessions()

    assert started.succeeded()
    assert here(started) == there(hosts[0])
    assert "checkpoints/step-6.index" in here(started)
    assert started.log("worker-0").startswith(b"saved 5\n")
    assert started.log("worker-0", attempt=1) == b"saved 6\n"


def test_files_on_a_slow_link_keep_nobody_from_being_heard(launch: Start, cluster: Cluster, hosts: Hosts) -> None:
    hosts[0].limit_rate("8mbit")
    options = cluster(hosts[0], timeouts={"lease": "1s"}, **OFTEN)
    started = launch(*options, *chief(f"save 5 {SIZE // 2}; {STAY}"))
    await_true(lambda: part(started), "the first bytes come")
    started.await_log(b"saved 5", "worker-0")
    await_true(lambda: "checkpoints/checkpoint" in here(started), "the checkpoint comes")
    started.signal(signal.SIGINT)

    assert started.wait() == 130
    assert "lost" not in started.stderr


# ---- launch collect
def test_a_run_that_goes_on_can_be_collected_from(
    launch: Start, cluster: Cluster, hosts: Hosts, collect: Collect
) -> None:
    started = launch(*cluster(hosts[0], **AT_THE_END), *chief(f"save 5 100000; {STAY}"))
    started.await_log(b"saved 5", "worker-0")
    collected = collect("--run-dir", started.runs)
    assert collected.returncode == 0, collected.stderr
    assert here(started) == there(hosts[0])
    started.signal(signal.SIGINT)

    assert started.wait() == 130


def test_a_killed_launchers_run_can_be_collected_from(
    launch: Start, cluster: Cluster, hosts: Hosts, collect: Collect
) -> None:
    started = launch(*cluster(hosts[0], **AT_THE_END), *chief("save 5 100000; echo more; exec sleep 1000"))
    started.await_log(b"more", "worker-0")
    started.signal(signal.SIGKILL)
    await_true(lambda: not hosts[0].processes(), "the end of the worker")
    (started.run_directory / "attempt-0" / "worker-0.log").write_bytes(b"")

    assert collect(started.run_directory).returncode == 0
    assert here(started) == there(hosts[0])
    assert started.log("worker-0") == b"saved 5\nmore\n"


def test_of_a_launcher_that_was_killed_while_files_came_it_is_known_how_the_workers_ended(
    launch: Start, cluster: Cluster, hosts: Hosts, collect: Collect
) -> None:
    hosts[0].limit_rate("10mbit")
    started = launch(*cluster(hosts[0], **AT_THE_END), *chief(f"save 5 {SIZE}"))
    await_true(lambda: part(started), "the first bytes come")
    assert (started.run_state["state"], started.run_state["ended"]) == ("running", None)
    started.signal(signal.SIGKILL)
    started.wait()
    hosts[0].lift_rate()

    told = "gone without an end: killed, or the machine went down. Its workers had ended before (done), and their files"
    collected = collect(started.run_directory)
    assert collected.returncode == 0
    assert f"the launcher of this run has {told} were being brought" in collected.stderr
    assert here(started) == there(hosts[0])
    resumed = launch("--resume", started.run_directory, "--", "true")
    assert resumed.succeeded()
    assert f"had {told} were being brought" in resumed.stderr


# ---- the disk here
@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of four megabytes for the run's directory."""
    place = tmp_path / "disk"
    place.mkdir()
    with disk(place, megabytes=4):
        yield place


def test_a_full_disk_here_costs_neither_the_run_nor_the_files(
    launch: Start, cluster: Cluster, hosts: Hosts, collect: Collect, small_disk: Path, tmp_path: Path
) -> None:
    said = tmp_path / "said"
    until_told = "while [ ! -e ~/go ]; do sleep .05; done; echo done"
    with said.open("wb") as stderr:
        options = cluster(hosts[0], **OFTEN)
        started = launch(*options, *chief(f"save 5 {SIZE}; {until_told}"), runs=small_disk, stderr=stderr)
        await_true(
            lambda: "this is tried again every 0.1 s" in said.read_text(), "the full disk is told of", said.read_text
        )
        hosts[0].write("go", b"")
        assert started.wait() == 3

    told = said.read_text()
    assert started.log("worker-0") == b"saved 5\ndone\n"
    assert len(there(hosts[0])) == 3
    assert told.count("this is tried again") == 1
    assert "no room in disk/" in told
    assert "6.0 MB are needed" in told
    assert f"-m launcher collect disk/{started.run_directory.name}\n" in told
    subprocess.run(["mount", "-o", "remount,size=20m", small_disk], check=True)
    assert collect(started.run_directory).returncode == 0
    assert here(started) == there(hosts[0])
