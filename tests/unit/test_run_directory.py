"""The run directory: names, hostile places, whole files."""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import sys
import threading
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launcher.cluster.spec import Task
from launcher.errors import LaunchError, UsageError
from launcher.hosts.events import (
    Event,
    HostReady,
    HostSilent,
    Interrupted,
    PortsReserved,
    ProgressMade,
    TaskExited,
    as_record,
)
from launcher.on_host.agent.messages import Target
from launcher.run.event_log import EventLog
from launcher.run_directory.directory import RunDirectory, file_name
from launcher.run_directory.launcher_process import Launcher
from launcher.run_directory.remote_logs import RemoteLogs
from launcher.run_directory.state import RunHost, RunState
from launcher.run_directory.whole_files import write_whole

NOW = datetime(2026, 11, 20, 14, 22, 33)
WORKER = Task("worker", 0)
STATE = RunState(
    run_id="20261120-142233-run",
    command=("python", "träin.py", os.fsdecode(b"\xff")),
    state="stopped",
    started="2026-11-20T14:22:33+00:00",
    launcher=Launcher(4711, "gpu-login", "0badcafe", "00000000-0000-4000-8000-000000000000", "pid:[4026531836]", 100),
    versions={"tf-launch": "0.1.0"},
    hosts=(RunHost("me@gpu-a", ("worker-0",), "/home/me/run", "/home/me/run/output", ("-p", "2222"), 5.0),),
    collect=("checkpoints", os.fsdecode(b"\xff")),
)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def complain(text: str) -> None:
    pytest.fail(text)


def started(root: Path, name: str, now: datetime = NOW) -> RunDirectory:
    run = RunDirectory.create(root, name, now)
    run.write_state(STATE)
    return run


def test_every_path_of_a_run_has_its_place(tmp_path: Path) -> None:
    run = RunDirectory.create(tmp_path, "two_hosts", NOW)
    here = tmp_path / "20261120-142233-two_hosts"
    assert (run.path, run.name) == (here, "20261120-142233-two_hosts")
    assert run.log(1, WORKER) == here / "attempt-1" / "worker-0.log"
    assert run.plan_file(0) == here / "attempt-0" / "plan.json"
    assert [run.run_file.name, run.cluster_file.name, run.events_file.name, run.chief.name] == [
        "run.json",
        "cluster.yaml",
        "events.jsonl",
        "chief",
    ]


def test_a_run_is_for_its_owner_only(tmp_path: Path) -> None:
    run = started(tmp_path, "run")
    run.write_plan(0, {"attempt": 0})
    run.write_cluster_file("name: run\n")
    EventLog(run.events_file, complain).close()
    assert [mode(path) for path in (run.path, run.make_attempt(0), run.make_chief())] == [0o700] * 3
    files = (run.run_file, run.plan_file(0), run.cluster_file, run.events_file)
    assert [mode(path) for path in files] == [0o600] * 4


def test_directories_above_a_run_that_are_missing_are_made_for_its_owner_only(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        RunDirectory.create(tmp_path / "project" / "runs", "run", NOW)
    finally:
        os.umask(before)
    assert [mode(path) for path in (tmp_path / "project", tmp_path / "project" / "runs")] == [0o700] * 2


def test_a_run_never_begins_in_a_directory_that_is_there_already(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (tmp_path / "20261120-142233-run").symlink_to(elsewhere)
    (tmp_path / "20261120-142233-run-2").mkdir(mode=0o777)
    run = started(tmp_path, "run")
    assert run.name == "20261120-142233-run-3"
    assert list(elsewhere.iterdir()) == []


def test_nothing_is_written_through_a_symbolic_link(tmp_path: Path) -> None:
    run = RunDirectory.create(tmp_path / "runs", "run", NOW)
    victim = tmp_path / "victim"
    victim.write_text("mine")
    for name in (f".run.json.{os.getpid()}.tmp", "events.jsonl", "worker-0.log"):
        (run.path / name).symlink_to(victim)
    run.write_state(STATE)
    with pytest.raises(LaunchError, match=r"events\.jsonl"):
        EventLog(run.events_file, complain)
    said: list[str] = []
    logs = RemoteLogs(said.append)
    logs.begin({WORKER: run.path / "worker-0.log"})
    logs.write(WORKER, 0, b"swapped")
    assert victim.read_text() == "mine"
    assert run.read_state() == STATE
    assert len(said) == 1


def test_an_attempt_is_not_written_into_a_linked_directory(tmp_path: Path) -> None:
    run = RunDirectory.create(tmp_path / "runs", "run", NOW)
    run.attempt(0).symlink_to(tmp_path)
    with pytest.raises(LaunchError, match="attempt-0: this is a symbolic link"):
        run.make_attempt(0)


def test_launches_in_the_same_second_get_directories_of_their_own(tmp_path: Path) -> None:
    made: list[Path] = []
    barrier = threading.Barrier(8)

    def launch() -> None:
        barrier.wait()
        made.append(RunDirectory.create(tmp_path, "run", NOW).path)

    threads = [threading.Thread(target=launch) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    suffixes = ["", *(f"-{n}" for n in range(2, 9))]
    assert sorted(path.name for path in made) == sorted(f"20261120-142233-run{suffix}" for suffix in suffixes)


@pytest.mark.parametrize(
    "place", [b"a b", b'it\'s "quoted"', b"two\nlines", b"\xff\xfe", "größe".encode(), b"$HOME;*", b"-rf"]
)
def test_any_path_will_do(tmp_path: Path, place: bytes) -> None:
    root = tmp_path / os.fsdecode(place)
    run = started(root, "run")
    log = EventLog(run.events_file, complain)
    log.append(Interrupted(2))
    log.close()
    assert run.read_state() == STATE


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("two_hosts", "two_hosts"),
        ("my run/3", "my-run-3"),
        ("../../etc", "etc"),
        ("größe", "größe"),
        (".hidden", "hidden"),
        ("\udcff\n", "run"),
        ("", "run"),
        ("x" * 1000, "x" * 50),
    ],
)
def test_names_become_file_names(name: str, expected: str) -> None:
    assert file_name(name) == expected


@given(st.text())
def test_any_name_becomes_one_file_name(name: str) -> None:
    safe = file_name(name)
    assert safe
    assert not set(safe) & set("/\0\n\t '\"$*")
    assert len(os.fsencode(safe)) <= 200
    assert not safe.startswith((".", "-"))


def test_a_file_in_the_way_is_a_usage_error(tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("")
    with pytest.raises(UsageError, match=r"runs: no run directory can be made here: .* --run-dir"):
        RunDirectory.create(tmp_path / "runs", "run", NOW)
    with pytest.raises(UsageError, match="--run-dir"):
        RunDirectory.create(tmp_path / "runs" / "below", "run", NOW)


@pytest.mark.usefixtures("ordinary_user")
def test_an_unwritable_root_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="Permission denied"):
        RunDirectory.create(Path("/tf-launch-has-no-right-here"), "run", NOW)


def test_state_comes_back_as_it_was_written(tmp_path: Path) -> None:
    run = started(tmp_path, "run")
    ended = replace(STATE, state="failed", ended="2026-11-20T14:30:00+00:00", result={"exit_code": 1})
    run.write_state(ended)
    assert run.read_state() == ended


def test_a_foreign_run_file_is_told(tmp_path: Path) -> None:
    run = RunDirectory.create(tmp_path, "run", NOW)
    run.run_file.write_text("[]")
    with pytest.raises(LaunchError, match=r"run\.json: no readable state"):
        run.read_state()


def test_a_failed_write_keeps_the_old_content_and_leaves_nothing(tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    write_whole(file, b"old")
    script = """
import resource, signal, sys
from pathlib import Path
from launcher.errors import LaunchError
from launcher.run_directory.whole_files import write_whole
from launcher.on_host.agent.messages import Target
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
try:
    write_whole(Path(sys.argv[1]), b"x" * 100_000)
except LaunchError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", script, file], capture_output=True, text=True, check=True)
    assert "plan.json: cannot be written: File too large." in done.stdout
    assert file.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [file]


def test_events_are_lines_with_both_clocks(tmp_path: Path) -> None:
    log = EventLog(tmp_path / "events.jsonl", complain)
    log.append(Interrupted(15))
    log.append(TaskExited("localhost", WORKER, None, 9, False, b"the end\n"))
    log.close()
    first, second = map(json.loads, (tmp_path / "events.jsonl").read_text().splitlines())
    assert 0 < first["monotonic"] <= second["monotonic"]
    assert first["time"] > 1.7e9
    assert {key: first[key] for key in ("type", "signal")} == {"type": "interrupted", "signal": 15}
    assert second["task"] == "worker-0"


def test_a_torn_last_line_spoils_only_itself(tmp_path: Path) -> None:
    file = tmp_path / "events.jsonl"
    file.write_bytes(b'{"type":"interr')
    log = EventLog(file, complain)
    log.append(Interrupted(2))
    log.close()
    torn, whole = file.read_bytes().splitlines()
    assert torn == b'{"type":"interr'
    assert json.loads(whole)["signal"] == 2


def test_an_event_log_that_cannot_be_written_is_told_once() -> None:
    told: list[str] = []
    log = EventLog(Path("/dev/full"), told.append)
    log.append(Interrupted(2))
    log.append(Interrupted(2))
    assert told == ["/dev/full: no further events are written: No space left on device."]


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        (PortsReserved("a", {WORKER: 2222}), {"type": "ports_reserved", "host": "a", "ports": {"worker-0": 2222}}),
        (
            HostReady("a", Target("id", "a", 1, "")),  # any message will do
            {"type": "host_ready", "host": "a", "facts": {"id": "id", "address": "a", "port": 1, "word": ""}},
        ),
        (HostSilent("a", float("inf"), 1.0), {"type": "host_silent", "host": "a", "seconds": "inf", "lease": 1.0}),
        (
            ProgressMade("a", WORKER, b'{"step": 1}'),
            {"type": "progress_made", "host": "a", "task": "worker-0", "line": '{"step": 1}'},
        ),
        (
            TaskExited("a", WORKER, 1, None, False, b"tail"),
            {
                "type": "task_exited",
                "host": "a",
                "task": "worker-0",
                "exit_code": 1,
                "signal": None,
                "out_of_memory": False,
                "log_disk_full": False,
            },
        ),
    ],
)
def test_events_become_json_objects(event: Event, expected: dict[str, object]) -> None:
    assert as_record(event) == expected


def test_latest_points_to_the_run_that_began_last(tmp_path: Path) -> None:
    started(tmp_path, "first")
    run = started(tmp_path, "second")
    assert (tmp_path / "latest").resolve() == run.path.resolve()
    assert sorted(path.name for path in tmp_path.iterdir() if path.name.startswith(".")) == []


def test_a_file_of_the_users_called_latest_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "latest").write_text("mine")
    started(tmp_path, "run")
    assert (tmp_path / "latest").read_text() == "mine"


def test_a_run_of_an_earlier_version_is_read(tmp_path: Path) -> None:
    run = started(tmp_path, "run")
    told = json.loads(run.run_file.read_bytes())
    told["launcher"] = {"pid": 4711, "created": 1795184553.25}
    del told["inode"]
    run.run_file.write_text(json.dumps(told))
    run.run_file.chmod(0o600)
    assert run.read_state() == replace(STATE, launcher=Launcher(4711))


def test_a_run_that_nobody_runs_any_more_without_an_end_is_lost(tmp_path: Path) -> None:
    run = started(tmp_path, "run")

    def left(state: str) -> str:
        run.write_state(replace(STATE, state=state))
        return run.read_final_state().state

    assert [left("running"), left("done")] == ["lost", "done"]


def test_a_process_that_may_be_the_launcher_of_an_earlier_version_is_asked_about(tmp_path: Path) -> None:
    run = started(tmp_path, "run")
    words = [sys.executable, "-c", "print(flush=True); input()", "launch"]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()  # until then /proc may not tell its words yet
        run.write_state(replace(STATE, state="running", launcher=Launcher(process.pid)))
        with pytest.raises(UsageError, match=rf"process {process.pid}, and that is a launcher.* --take-over"):
            run.read_final_state()
        assert run.read_final_state(take_over=True).state == "lost"
        process.kill()
    assert run.read_final_state().state == "lost"


def test_a_copy_is_not_taken_for_the_run_that_was_made_here(tmp_path: Path) -> None:
    run = started(tmp_path, "run")
    run.write_state(replace(STATE, launcher=Launcher.this_process(), inode=run.inode))
    copy = RunDirectory(tmp_path / "copy")
    shutil.copytree(run.path, copy.path)

    assert run.is_made_here(run.read_state())
    assert not copy.is_made_here(copy.read_state())
