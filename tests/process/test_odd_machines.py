"""Machines that lack what others have, or allow little: a line says what, and what to do."""

from __future__ import annotations

import os
import resource
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from support.launching import PROGRAMS, ROOT, Launch

Start = Callable[..., Launch]
Cluster = Callable[..., tuple[str, str]]

WITHOUT_PROC = (*("unshare", "--map-root-user", "--mount", "sh", "-c", 'mount -t tmpfs none /proc && exec "$@"', "sh"),)


@pytest.fixture
def without_proc(need: Callable[..., None]) -> tuple[str, ...]:
    """The words that start a program where /proc is empty."""
    need("unshare", "util-linux")
    tried = subprocess.run([*WITHOUT_PROC, "true"], capture_output=True, text=True)
    if tried.returncode:
        pytest.skip(f"needs user namespaces, in which an ordinary user may mount: {tried.stderr.strip()}")
    return WITHOUT_PROC


def test_a_launcher_without_proc_says_so(launch: Start, without_proc: tuple[str, ...]) -> None:
    started = launch("--workers", "1", "--", "true", under=without_proc)

    assert started.wait() == 3
    assert started.stderr == (
        "launch: /proc is not mounted, and processes are found and ended by it; mount it: mount -t proc proc /proc\n"
    )


def stand_in(place: Path, line: str) -> dict[str, str]:
    """An environment in which ssh runs this line of shell, with what it should run as its last argument."""
    ssh = place / "bin" / "ssh"
    ssh.parent.mkdir()
    ssh.write_text(f'#!/bin/sh\nfor last; do :; done\nset -- sh -c "$last"\n{line}\n')
    ssh.chmod(0o755)
    return {"PATH": f"{ssh.parent}:{Path(sys.executable).parent}:{os.environ['PATH']}", "HOME": str(place)}


def test_a_host_without_proc_is_told(
    launch: Start, cluster: Cluster, without_proc: tuple[str, ...], tmp_path: Path
) -> None:
    line = 'exec unshare --map-root-user --mount sh -c \'mount -t tmpfs none /proc && exec "$@"\' sh "$@"'
    started = launch(*cluster(1, host="bare"), "--", "true", env=stand_in(tmp_path, line))

    assert started.wait() == 3
    assert "bare: /proc is not mounted, and processes are found and ended by it" in started.stderr
    assert "mount -t proc proc /proc there, as root" in started.stderr


def test_the_proc_of_other_processes_is_refused(launch: Start, need: Callable[..., None]) -> None:
    need("unshare", "util-linux")
    other = ("unshare", "--map-root-user", "--pid", "--fork", "--kill-child")
    if subprocess.run([*other, "true"], capture_output=True).returncode:
        pytest.skip("needs user namespaces for ordinary users")
    started = launch("--workers", "1", "--", "true", under=other)

    assert started.wait() == 3
    assert "launch: /proc shows other processes than those around it" in started.stderr


# ---- what is refused
REFUSED = (sys.executable, str(PROGRAMS / "refused.py"))


@pytest.fixture
def refused() -> tuple[str, ...]:
    """The words that start a program whose kernel refuses something."""
    tried = subprocess.run([*REFUSED, "threads", "true"], capture_output=True, text=True)
    if tried.returncode:
        pytest.skip(f"needs seccomp on x86-64 or aarch64: {tried.stderr.strip()}")
    return REFUSED


@pytest.mark.parametrize(("what", "said"), [("threads", "another thread"), ("processes", "another process")])
def test_a_launcher_that_gets_no_threads_or_processes_says_what_to_raise(
    launch: Start, refused: tuple[str, ...], what: str, said: str
) -> None:
    started = launch("--workers", "1", "--", "true", under=(*refused, what))

    assert started.wait() == 3
    assert f"this machine refuses to start {said}" in started.stderr
    assert "allow more processes and threads on this machine: `ulimit -u` in the shell" in started.stderr
    assert "Traceback" not in started.stderr


def test_a_host_that_gives_no_process_for_an_agent_is_told_with_what_to_raise(
    launch: Start, cluster: Cluster, refused: tuple[str, ...], tmp_path: Path
) -> None:
    line = f'exec {shlex.join(refused)} processes "$@"'
    started = launch(*cluster(1, host="full"), "--", "true", env=stand_in(tmp_path, line))

    assert started.wait() == 3
    assert "full: cannot start a process: Resource temporarily unavailable (" in started.stderr
    assert "allow more processes and threads on full: `ulimit -u` in the shell" in started.stderr


ASK_FOR_A_WORKER = """
from launcher.on_host.agent.messages import WorkerStart
from launcher.on_host.agent.workers import StartError, created
try:
    created(WorkerStart("worker-0", ["true"], {}, "/", 1, "log", "progress"), (0, 1, 2))
except StartError as error:
    print(error)
"""


def test_a_worker_for_which_there_is_no_process_is_told_with_the_limit(refused: tuple[str, ...]) -> None:
    words = [*refused, "processes", sys.executable, "-c", ASK_FOR_A_WORKER]
    said = subprocess.run(words, capture_output=True, text=True, cwd=ROOT).stdout

    assert said.startswith("cannot start a process: Resource temporarily unavailable (")


ASK_FOR_A_NAME = """
from launcher.on_host.agent.messages import DialPorts, Target
from launcher.on_host.agent.reach import Dialling
print(Dialling(DialPorts([Target("a", "a.invalid", 1, "w")], 60.0, 60.0)).results["a"])
"""


def test_a_name_for_whose_look_up_there_is_no_process_is_told_with_the_limit(refused: tuple[str, ...]) -> None:
    words = [*refused, "processes", sys.executable, "-c", ASK_FOR_A_NAME]
    said = subprocess.run(words, capture_output=True, text=True, cwd=ROOT).stdout

    assert said.startswith("cannot resolve the name a.invalid: Resource temporarily unavailable (")


WORKERS = {
    "threads": (
        "import threading; threading.Thread(target=print).start()",
        "RuntimeError: can't start new thread",
    ),
    "processes": ("import subprocess; subprocess.run(['true'])", "BlockingIOError: [Errno 11]"),
}


@pytest.mark.parametrize("what", WORKERS)
def test_a_worker_that_gets_no_threads_or_processes_is_told_what_to_raise(
    launch: Start, refused: tuple[str, ...], what: str
) -> None:
    program, said = WORKERS[what]
    started = launch("--workers", "1", "--", *refused, what, sys.executable, "-c", program)

    assert started.wait() == 1
    assert said in started.last_words
    assert "allow more processes and threads on localhost: `ulimit -u` in the shell" in started.last_words


# ---- open files
def few_files(soft: int, hard: int) -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_many_workers_need_no_more_files_than_the_system_allows(launch: Start) -> None:
    """Each of them has a log, and a port that is held: the agent opens more than 30 files."""
    report = "import resource; print(resource.getrlimit(resource.RLIMIT_NOFILE))"
    argv = ("--workers", "16", "--", sys.executable, "-c", report)
    started = launch(*argv, preexec_fn=lambda: few_files(30, 500))

    assert started.succeeded()
    assert {started.log(f"worker-{n}") for n in range(16)} == {b"(30, 500)\n"}


def test_too_few_files_for_an_agent_are_told_with_what_to_raise(
    launch: Start, cluster: Cluster, tmp_path: Path
) -> None:
    line = 'ulimit -n 50 && exec "$@"'
    started = launch(*cluster(60, host="narrow"), "--", "true", env=stand_in(tmp_path, line))

    assert started.wait() == 3
    assert "narrow: no ports for its workers: Too many open files (a process may have 50 here)" in started.stderr
    assert "allow more open files on narrow: `ulimit -n` in the shell" in started.stderr


def test_too_few_files_for_the_launcher_are_told_with_what_to_raise(launch: Start) -> None:
    started = launch("--workers", "1", "--", "true", preexec_fn=lambda: few_files(20, 40))

    assert started.wait() == 3
    assert (
        "launch: a process may have 40 open files on this machine, and the launcher may need 52 for 1 host\n"
        "launch:   What to do: allow more open files on this machine: `ulimit -n` in the shell"
    ) in started.stderr


def test_a_worker_that_gets_no_files_is_told_what_to_raise(launch: Start) -> None:
    open_all = "import os\nfiles = []\nwhile True: files.append(open(os.devnull))"
    started = launch("--workers", "1", "--", sys.executable, "-c", open_all)

    assert started.wait() == 1
    assert "allow more open files on localhost: `ulimit -n` in the shell" in started.last_words
