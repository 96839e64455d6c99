"""What a worker makes of the files that the launcher reads, its log and its reports, does no harm to the run."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from support.launching import ROOT, Launch, await_true

Start = Callable[..., Launch]
Cluster = Callable[..., tuple[str, str]]

REPORT = """echo '{"step": 7}' >>"$LAUNCH_PROGRESS"; """
REPORTS = {
    "a pipe": 'mkfifo "$LAUNCH_PROGRESS"',
    "a pipe with a writer": 'mkfifo "$LAUNCH_PROGRESS"; (exec 3<>"$LAUNCH_PROGRESS"; echo "{}" >&3; sleep 1)& sleep .1',
    "a link to a device": 'ln -s /dev/zero "$LAUNCH_PROGRESS"',
    "a directory": 'mkdir "$LAUNCH_PROGRESS"',
    "a sparse file": 'truncate -s 8G "$LAUNCH_PROGRESS"',
    "one line of 150 MB": 'head -c 150000000 /dev/zero | tr "\\0" x >"$LAUNCH_PROGRESS"',
    "a nest of brackets": '(head -c 4000 /dev/zero | tr "\\0" "["; echo) >"$LAUNCH_PROGRESS"; sleep .3',
}


@pytest.mark.parametrize("make", REPORTS.values(), ids=REPORTS)
def test_reports_of_any_kind_end_no_run(launch: Start, cluster: Cluster, make: str) -> None:
    script = f'{make}; echo made; rm -r "$LAUNCH_PROGRESS"; echo gone; {REPORT} until [ -e seen ]; do sleep .01; done'
    started = launch(*cluster(1, timeouts={"lease": "5s"}), "--", "sh", "-c", script)
    started.await_log(b"gone", "worker-0")
    await_true(lambda: any(each.get("line") == '{"step": 7}' for each in started.events), "the report")
    (started.runs.parent / "seen").touch()

    assert started.succeeded()
    assert started.log("worker-0") == b"made\ngone\n"


TRUNCATING = """
echo before; until [ -e go-on ]; do sleep .01; done
: >/proc/$$/fd/1
echo after; until [ -e end ]; do sleep .01; done
"""


@pytest.fixture
def elsewhere(tmp_path: Path) -> dict[str, str]:
    """A stand-in for ssh that has every host be this one."""
    ssh = tmp_path / "bin" / "ssh"
    ssh.parent.mkdir()
    ssh.write_text('#!/bin/sh\nfor line; do :; done\nexec sh -c "$line"\n')
    ssh.chmod(0o755)
    return {"PATH": f"{ssh.parent}:{os.environ['PATH']}"}


@pytest.mark.parametrize("host", ["localhost", "elsewhere"])
def test_a_worker_may_truncate_its_log(
    launch: Start, cluster: Cluster, elsewhere: dict[str, str], tmp_path: Path, host: str
) -> None:
    where = {"host": host, "workdir": str(tmp_path)}
    where |= {"run_dir": str(tmp_path / "there")} if host == "elsewhere" else {}
    started = launch(*cluster(1, **where), "--", "sh", "-c", TRUNCATING, env=elsewhere)
    started.await_log(b"before", "worker-0")
    (tmp_path / "go-on").touch()
    started.await_log(b"after\n", "worker-0")
    (tmp_path / "end").touch()

    assert started.succeeded()
    assert "[worker 0] after" in started.stdout
    if host == "elsewhere":
        told = b"before\nlaunch: the worker has truncated its log; it goes on here\nafter\n"
        assert started.log("worker-0") == told
        assert "not brought" not in started.stderr
    else:
        assert started.log("worker-0") == b"after\n"


def test_a_failure_is_understood_by_what_a_truncated_log_still_holds(launch: Start, cluster: Cluster) -> None:
    script = "import os, sys; print('x' * 9000, flush=True); os.truncate('/proc/self/fd/1', 0); {}['key']"
    started = launch(*cluster(1), "--", "python", "-c", script)

    assert started.wait() == 1
    assert "KeyError: 'key'" in started.last_words


def test_what_came_of_a_log_before_it_was_truncated_is_kept_when_its_end_is_collected(
    launch: Start, cluster: Cluster, elsewhere: dict[str, str], tmp_path: Path
) -> None:
    host = cluster(1, host="elsewhere", workdir=str(tmp_path), run_dir=str(tmp_path / "there"))
    started = launch(*host, "--", "sh", "-c", TRUNCATING, env=elsewhere)
    started.await_log(b"before", "worker-0")
    (tmp_path / "go-on").touch()
    started.await_log(b"after\n", "worker-0")
    (tmp_path / "end").touch()
    assert started.succeeded()
    (there,) = (tmp_path / "there").rglob("worker-0.log")
    with there.open("ab") as file:
        file.write(b"x" * 1000)
    words = [sys.executable, "-m", "launcher", "collect", "--run-dir", str(started.runs)]
    said = subprocess.run(
        words, env={**os.environ, "PYTHONPATH": str(ROOT), **elsewhere}, capture_output=True, text=True
    )

    assert started.log("worker-0").startswith(b"before\nlaunch: the worker has truncated")
    assert "the worker has truncated it there, and its end has not come" in said.stdout + said.stderr
