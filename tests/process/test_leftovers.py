"""`launch leftovers` on this machine: it finds what runs have left, and ends and removes only that."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from support.launching import ROOT, Launch, await_true, program

from launcher.on_host.agent.fields import encode
from launcher.on_host.agent.framing import GREETING, frame
from launcher.on_host.leftovers.messages import LeftDirectory, LeftoversFound, LeftProcess, RunEnded

Leftovers = Callable[..., subprocess.CompletedProcess[str]]
STUBBORN = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); time.sleep(600)"
FORKING = "import os, time; os.fork(); os.fork(); print(flush=True); time.sleep(600)"


@pytest.fixture
def leftovers(tmp_path: Path, environment: dict[str, str]) -> Leftovers:
    """Run `launch leftovers ARGUMENTS` with a home of its own."""

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        words = [str(ROOT / "scripts/launch"), "leftovers", *arguments]
        own = {**environment, "HOME": str(tmp_path)}
        return subprocess.run(words, env=own, capture_output=True, text=True, stdin=subprocess.DEVNULL)

    return run


@pytest.fixture
def left(environment: dict[str, str]) -> Iterator[Callable[..., str]]:
    """Leave a process of a run without an agent; return the run."""
    started: list[subprocess.Popen[str]] = []

    def start(program: str = STUBBORN, name: str = "local") -> str:
        run = f"20261121-101529-{name}-{uuid.uuid4().hex[:16]}"
        process = subprocess.Popen(
            [sys.executable, "-c", program],
            env={**environment, "LAUNCH_RUN_ID": run},
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        assert process.stdout is not None
        process.stdout.readline()
        started.append(process)
        return run

    yield start
    for process in started:
        with process:
            os.killpg(process.pid, signal.SIGKILL)


def directory(home: Path, run: str) -> Path:
    """A run's directory, as a host behind ssh has it."""
    path = home / ".tf-launch/runs" / run
    (path / "output").mkdir(parents=True)
    (path / "output/model").write_bytes(bytes(1500))
    return path


def members(run: str) -> list[psutil.Process]:
    wanted = f"LAUNCH_RUN_ID={run}".encode()
    found = []
    for process in psutil.process_iter():
        try:
            if wanted in Path(f"/proc/{process.pid}/environ").read_bytes().split(b"\0"):
                found.append(process)
        except OSError:
            continue
    return found


def lines_of(run: str, text: str) -> list[str]:
    """What is said of one run: this machine may have others under way."""
    _, _, after = text.partition(f"  run {run}: ")
    lines = after.splitlines()
    own = [line for line in lines[1:] if line.startswith("    ")]
    return lines[:1] + own[: next((n for n, line in enumerate(lines[1:]) if not line.startswith("    ")), len(own))]


def test_processes_without_an_agent_are_left_over(leftovers: Leftovers, left: Callable[..., str]) -> None:
    run = left()

    first, process = lines_of(run, leftovers().stdout)
    assert first == "1 process, 1 of them left over: no agent above them lives"
    assert process.split()[0] == str(members(run)[0].pid)
    assert "signal.SIGTERM" in process


def test_a_run_under_way_is_told_as_such(leftovers: Leftovers, launch: Callable[..., Launch]) -> None:
    started = launch("--workers", "2", "--", "sleep", "600")
    started.worker("worker-1")
    await_true(lambda: (started.run_directory / "run.json").exists(), "its run.json")

    assert lines_of(started.run_state["run_id"], leftovers().stdout)[0] == (
        "2 processes, its agent lives: it is under way"
    )
    started.signal(signal.SIGINT)
    assert started.wait() == 130


@pytest.mark.parametrize("program", [STUBBORN, FORKING], ids=["stubborn", "forking"])
def test_stop_ends_all_of_one_run_and_nothing_else(
    leftovers: Leftovers, left: Callable[..., str], program: str
) -> None:
    run, other = left(program), left()
    await_true(lambda: len(members(run)) == (4 if program == FORKING else 1), "all processes of the run")

    stopped = leftovers("--stop", run, "--yes", "--grace", "0.1")

    assert (stopped.returncode, stopped.stderr) == (0, "")
    assert stopped.stdout.endswith("this machine: ended\n")
    assert (members(run), len(members(other))) == ([], 1)


def test_a_run_under_way_is_stopped_by_its_launcher_and_is_no_success(
    leftovers: Leftovers, launch: Callable[..., Launch], cluster: Callable[..., tuple[str, str]]
) -> None:
    """Its workers exit with 0 at a SIGTERM, as programs do that save."""
    options = cluster(name=uuid.uuid4().hex, timeouts={"failure_grace": "10s"})
    started = launch(*options, *program("stay", "save"))
    started.await_log(b"ready", "worker-0", "worker-1")

    stopped = leftovers("--stop", started.run_directory.name, "--yes", "--grace", "100")

    assert (stopped.returncode, stopped.stderr) == (0, "")
    assert stopped.stdout.endswith("this machine: ended\n")
    assert started.wait() == 128 + signal.SIGTERM
    assert started.log("worker-1").split() == [b"ready", b"got", b"SIGTERM", b"saved"]
    assert "localhost was asked to end the run: stopping 2 workers by SIGTERM" in started.stderr
    assert started.run_state["state"] == "stopped"


def test_of_two_runs_of_one_name_only_the_one_that_is_meant_is_stopped(
    leftovers: Leftovers, launch: Callable[..., Launch], cluster: Callable[..., tuple[str, str]], tmp_path: Path
) -> None:
    """As two have it that begin within the same second in different directories; here no other run has their name."""
    once = '[ "$LAUNCH_ATTEMPT" != 0 ] || exit 1; echo "$LAUNCH_RUN_ID"; sleep 600'
    first = launch(*cluster(1, name=uuid.uuid4().hex), "--", "sh", "-c", once)
    assert first.wait() == 1
    copy = shutil.copytree(first.run_directory, tmp_path / "elsewhere" / first.run_directory.name)
    resumed = [launch("--resume", each) for each in (first.run_directory, copy)]
    logs = [run / "attempt-1" / "worker-0.log" for run in (first.run_directory, copy)]
    await_true(lambda: all(log.exists() and log.read_text().endswith("\n") for log in logs), "both workers")
    own, other = (log.read_text().strip() for log in logs)

    refused = leftovers("--stop", first.run_directory.name, "--yes")
    stopped = leftovers("--stop", own, "--yes", "--grace", "100")

    assert refused.returncode == 2
    both = ", ".join(sorted((own, other)))
    assert f"several runs are called {first.run_directory.name}; name one of them with its digits: {both}\n" in (
        refused.stderr
    )
    assert (stopped.returncode, stopped.stderr) == (0, "")
    assert resumed[0].wait() == 128 + signal.SIGTERM
    assert len(members(other)) == 2
    resumed[1].signal(signal.SIGINT)
    assert resumed[1].wait() == 130


def test_nothing_is_ended_or_removed_without_a_yes(
    leftovers: Leftovers, left: Callable[..., str], tmp_path: Path
) -> None:
    run = left()
    path = directory(tmp_path, "20261121-101529-other-0123456789abcdef")

    asked = leftovers("--stop", run, "--remove", "20261121-101529-other")

    assert asked.returncode == 3
    assert "this machine: end 1 process? Say so with --yes" in asked.stderr
    assert f"delete {path} (1.5 kB)? Say so with --yes" in asked.stderr
    assert len(members(run)) == 1
    assert path.exists()


def test_remove_deletes_the_directories_of_one_run(leftovers: Leftovers, tmp_path: Path) -> None:
    path, other = (directory(tmp_path, f"20261121-10152{n}-digits-0123abcd") for n in range(2))
    (path / "link").symlink_to(other)
    (path.parent / "20261121-101520-digits-notours").mkdir()

    removed = leftovers("--remove", "20261121-101520-digits", "--yes")

    assert (removed.returncode, removed.stderr) == (0, "")
    assert sorted(each.name for each in path.parent.iterdir()) == ["20261121-101520-digits-notours", other.name]
    assert (other / "output/model").exists()


@pytest.mark.parametrize("how", ["its processes", "an open file"])
def test_the_directory_of_a_run_under_way_is_not_removed(
    leftovers: Leftovers, left: Callable[..., str], tmp_path: Path, how: str
) -> None:
    run = left() if how == "its processes" else "20261121-101529-digits-0123abcd"
    path = directory(tmp_path, run)
    with (path / "output/model").open() if how == "an open file" else (path.parent / "x").open("w"):
        removed = leftovers("--remove", run, "--yes")

    assert removed.returncode == 3
    assert removed.stderr == f"leftovers: this machine: {path} stays: its run is under way\n"
    assert path.exists()


def test_sizes_and_names_are_shown(leftovers: Leftovers, tmp_path: Path) -> None:
    path = directory(tmp_path, "20261121-101529-digits-0123abcd")

    assert f"  {path}  1.5 kB, last changed " in leftovers().stdout


def test_nothing_is_told_too(leftovers: Leftovers, tmp_path: Path) -> None:
    said = leftovers("--run-dir", str(tmp_path / "none")).stdout

    assert said.startswith("this machine:\n")


def test_a_host_that_cannot_be_reached_is_told(leftovers: Leftovers) -> None:
    asked = leftovers("no-such-host.invalid")

    assert asked.returncode == 3
    assert asked.stderr.startswith("leftovers: no-such-host.invalid: ")


# ---- a host that means harm
EVIL = "\x1b]0;TITLE\x07\x1b[2J\x9b31m\u202e\r[launch] done\b"
ANSWERS = [
    LeftoversFound([LeftProcess(EVIL, 1, 1.0, EVIL, None)], [LeftDirectory(EVIL, EVIL, 1, 1.0, False)], EVIL, 0),
    RunEnded([1]),
]
HARMFUL = {
    "on stderr": (b"", f"{EVIL}\n"),
    "in an answer": (GREETING + encode(ANSWERS[0]), ""),
    "in another answer than that": (GREETING + encode(ANSWERS[1]), ""),
    "in no answer": (GREETING + frame(b"[" * 100_000), ""),
    "of another shape": (GREETING + frame(json.dumps({"event": EVIL}).encode()), ""),
}


def leftovers_of(tmp_path: Path, environment: dict[str, str], ssh: str) -> subprocess.CompletedProcess[str]:
    """Ask a host; this shell script is what stands for ssh."""
    (tmp_path / "ssh").write_text(f"#!/bin/sh\n{ssh}\n")
    (tmp_path / "ssh").chmod(0o755)
    own = {**environment, "PATH": f"{tmp_path}:{environment['PATH']}", "PYTHONUTF8": "1"}
    words = [str(ROOT / "scripts/launch"), "leftovers", "gpu-b"]
    return subprocess.run(words, env=own, capture_output=True, text=True, encoding="utf-8", stdin=subprocess.DEVNULL)


@pytest.mark.parametrize(("out", "err"), HARMFUL.values(), ids=HARMFUL)
def test_what_a_host_says_cannot_harm_a_terminal(
    out: bytes, err: str, environment: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "out").write_bytes(out)
    (tmp_path / "err").write_text(err)

    done = leftovers_of(tmp_path, environment, f"cat '{tmp_path}/out'\ncat '{tmp_path}/err' >&2")

    assert "gpu-b" in done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    assert all(each.isprintable() or each == "\n" for each in done.stdout + done.stderr)


@pytest.mark.parametrize("how", ["exec cat /dev/zero", "cat /dev/zero"])
def test_a_host_that_prints_without_end_is_told(how: str, environment: dict[str, str], tmp_path: Path) -> None:
    asked = leftovers_of(tmp_path, environment, how)

    assert asked.returncode == 3
    assert asked.stderr.startswith(
        "leftovers: gpu-b: the login shell there prints without end\n  look at its ~/.bashrc"
    )


def test_a_host_that_complains_without_end_is_told_in_a_line(environment: dict[str, str], tmp_path: Path) -> None:
    asked = leftovers_of(tmp_path, environment, "exec cat /dev/zero >&2")

    assert asked.returncode == 3
    assert asked.stderr.startswith("leftovers: gpu-b: ")
    assert len(asked.stderr) < 2000


@pytest.mark.parametrize("words", [["--help"], []])
def test_a_reader_that_has_gone_changes_no_exit_code(environment: dict[str, str], words: list[str]) -> None:
    assert unread(words, environment) == (0, "")


def test_a_reader_that_has_gone_keeps_nothing_from_being_done(
    left: Callable[..., str], environment: dict[str, str]
) -> None:
    run = left()

    assert unread(["--stop", run, "--yes", "--grace", "0.1"], environment) == (0, "")
    assert members(run) == []


def unread(words: list[str], environment: dict[str, str]) -> tuple[int, str]:
    """The exit code and stderr of `launch leftovers` where nobody reads its stdout any more."""
    reading, writing = os.pipe()
    os.close(reading)
    argv = [str(ROOT / "scripts/launch"), "leftovers", *words]
    done = subprocess.run(argv, env=environment, stdout=writing, stderr=subprocess.PIPE, text=True)
    os.close(writing)
    return done.returncode, done.stderr
