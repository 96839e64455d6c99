"""Machines that lack what others have, or allow little: a line says what, and what to do."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from launching import Launch

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
    return {"PATH": f"{ssh.parent}:{os.environ['PATH']}"}


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
