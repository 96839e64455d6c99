"""A host that lies about its files harms nobody: a real agent, and somebody between who changes what it tells."""

from __future__ import annotations

import os
import resource
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.gathering_host import GatheringHost
from support.launching import MARK, PROGRAMS, Launch, await_true, cluster_file, marked_processes

from launcher.gathering.chief_directory import NoRoomError
from launcher.gathering.remote_files import RefusedError

Start = Callable[..., Launch]
LIAR = (sys.executable, str(PROGRAMS / "liar.py"))
SSH = """\
#!/bin/bash
while [ "$1" != -- ]; do [ "$1" = -G ] && exit 1; shift; done
host=$2; shift 2
mkdir -p "$HOSTS/$host" && cd "$HOSTS/$host" && HOME=$PWD exec "$PYTHON" "$LIAR" "${host//_/ }" sh -c "$*"
"""
"""Stands in for ssh: what a host is called it does."""


@pytest.fixture
def lying(tmp_path: Path, mark: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], GatheringHost]]:
    """A host with one small file that tells this lie."""
    monkeypatch.setenv(MARK, mark)
    made = []

    def make(lie: str) -> GatheringHost:
        made.append(host := GatheringHost(tmp_path, (*LIAR, lie)))
        host.write("export/model.keras", b"12345")
        return host

    yield make
    for host in made:
        host.cut()
        host.close()
    await_true(lambda: not marked_processes(mark), "the end of the agent, whose link was cut")


@pytest.mark.parametrize(
    ("lie", "complaint"),
    [
        ("more than it said", "it sent more of export/model.keras than it had listed, 5 B"),
        ("the beginning again", "it sent 5 bytes from 0 on, not those from 5"),
        ("nothing again", "it sent 0 bytes from 0 on, not those from 0"),
        ("a gap", "it sent 5 bytes from 1 on, not those from 0"),
        ("list without end", "it lists more than 500000 files"),
    ],
)
def test_what_nobody_asked_for_is_refused(lying: Callable[[str], GatheringHost], lie: str, complaint: str) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    host = lying(lie)
    with pytest.raises(RefusedError, match=complaint):
        host.gather()

    assert host.here == {}
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 400_000  # kB


def test_a_size_that_no_disk_has_room_for_is_told(lying: Callable[[str], GatheringHost]) -> None:
    with pytest.raises(NoRoomError, match=r"no room in .* for export/model.keras: 4611.7 PB are needed"):
        lying("size").gather()


@pytest.mark.parametrize(
    ("lie", "reason"),
    [
        ("less than nothing", "the host says that it has a size that no file has"),
        ("time", "the host says that it was written at a time that cannot be"),
        ("time that was sent", "the host says that it was written at a time that cannot be"),
    ],
)
def test_a_file_of_impossible_size_or_time_is_left(
    lying: Callable[[str], GatheringHost], lie: str, reason: str
) -> None:
    host = lying(lie)

    assert host.gather().left == {"export/model.keras": reason}
    assert host.here == {}


def test_names_lead_nowhere_else(lying: Callable[[str], GatheringHost], tmp_path: Path) -> None:
    host = lying("names")
    host.write("export/a", b"abc", mtime=1e-9)
    left = host.gather().left

    assert host.here == {"export/model.keras": b"12345", "export/a": b"abc"}
    assert not list(tmp_path.rglob("OUTSIDE"))
    assert left["export/a/b"] == left["export/a/b/c"] == "the host says that export/a is a file"
    assert left["export/\ud800x"] == "its name is none that a file can have"
    assert left["../../../../OUTSIDE"] == "the host names a file that was not asked for"
    assert left["x"] == r"\x1b]0;evil\x07 why\n[launch] done"


# ---- the whole launcher
@pytest.fixture
def on_liar(tmp_path: Path, launch: Start) -> Iterator[Callable[..., Launch]]:
    """Start a program whose chief runs on a host that tells a lie."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "ssh").write_text(SSH)
    (tmp_path / "bin" / "ssh").chmod(0o700)

    def start(lie: str, script: str, **keys: object) -> Launch:
        path = f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}"
        env = {"PATH": path, "HOSTS": str(tmp_path / "hosts"), "PYTHON": LIAR[0], "LIAR": LIAR[1]}
        options = cluster_file(tmp_path, [{"host": lie.replace(" ", "_"), "workers": 1}], {}, keys)
        started.append(launch(*options, "--", "sh", "-c", script, env=env))
        return started[-1]

    started: list[Launch] = []
    yield start
    for each in started:
        await_true(lambda one=each: not one.alive(), "the end of the agent, whose link was cut")  # type: ignore[misc]


def test_a_host_that_sends_more_than_it_said_is_lost(on_liar: Callable[..., Launch]) -> None:
    script = 'cd "$LAUNCH_OUTPUT_DIR"; echo hello > notes.txt; touch -d "1 hour ago" notes.txt; exec sleep 1000'
    started = on_liar("more than it said", script, collect_interval="200ms")

    assert started.wait() == 1
    assert "more_than_it_said was lost: it sent more of notes.txt than it had listed, 6 B" in started.stderr
    assert "Traceback" not in started.stderr
    assert started.run_state["state"] == "failed"


@pytest.mark.parametrize("lie", ["more than it said", "list without end", "no name"])
def test_a_run_that_succeeded_on_a_lying_host_tells_what_is_missing(on_liar: Callable[..., Launch], lie: str) -> None:
    started = on_liar(lie, 'mkdir -p "$LAUNCH_OUTPUT_DIR"; echo hello > "$LAUNCH_OUTPUT_DIR/notes.txt"')

    assert started.wait() == 3
    assert "Traceback" not in started.stderr
    assert "is away (it " in started.stderr
    assert started.run_state["state"] == "failed"


def test_a_restart_is_decided_without_the_newest_step_of_a_liar(on_liar: Callable[..., Launch]) -> None:
    script = 'mkdir -p "$LAUNCH_OUTPUT_DIR"; touch "$LAUNCH_OUTPUT_DIR/a"; exit 3'
    started = on_liar("no name", script, restart={"max_restarts": 1, "backoff": "10ms"})

    assert started.wait() in {1, 3}
    assert "Traceback" not in started.stderr
    assert started.run_state["state"] == "failed"
