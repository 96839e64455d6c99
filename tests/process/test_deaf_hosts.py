"""Hosts that do not read what they are sent, or never end to speak, cost nobody else anything."""

from __future__ import annotations

import fcntl
import os
import signal
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.launching import Launch, await_true, cluster_file, program
from support.odd_ssh import OddHosts

Start = Callable[..., Launch]
QUOTA = Path("/proc/sys/fs/pipe-user-pages-soft")
MEBIBYTE = 1 << 20
WITHOUT_RIGHTS = ("setpriv", "--bounding-set=-all", "--inh-caps=-all")
"""For root, to whom no quota applies otherwise."""


@pytest.fixture
def hosts(tmp_path: Path) -> OddHosts:
    return OddHosts(tmp_path / "hosts")


@pytest.fixture
def small_pipes(need: Callable[..., None]) -> Iterator[tuple[str, ...]]:
    """A command that runs another one where pipes hold one page: this user has all the others that the kernel lends."""
    if os.geteuid() == 0:
        need("setpriv")
    quota = int(QUOTA.read_text()) * os.sysconf("SC_PAGESIZE")
    if not quota:
        pytest.skip(f"needs a quota of pipes in {QUOTA}")
    ends: list[int] = []
    try:
        for _ in range(quota // MEBIBYTE + 1):
            ends += os.pipe()
            try:
                fcntl.fcntl(ends[-1], fcntl.F_SETPIPE_SZ, MEBIBYTE)
            except PermissionError:  # the quota is used up
                break
        yield WITHOUT_RIGHTS if os.geteuid() == 0 else ()
    finally:
        for end in ends:
            os.close(end)


def cluster(place: Path, *hosts: str, **timeouts: str) -> tuple[str, str]:
    """One worker on each of these hosts."""
    return cluster_file(place, [{"host": host, "workers": 1} for host in hosts], timeouts, {})


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("told", [False, True], ids=["at the very start", "once it is waited for"])
def test_a_signal_is_acted_on_while_a_host_reads_nothing(
    launch: Start, hosts: OddHosts, tmp_path: Path, small_pipes: tuple[str, ...], number: int, told: bool
) -> None:
    environment = hosts.environment(os.environ["PATH"])
    started = launch(*cluster(tmp_path, "localhost", "frozen"), "--", "true", env=environment, under=small_pipes)
    await_true(lambda: hosts.times_started("frozen"), "the start of ssh")
    if told:
        started.await_event("host_awaited")
    started.signal(number)

    assert started.wait() == 128 + number
    assert "Traceback" not in started.stderr


def test_a_host_that_reads_nothing_costs_no_other_host_its_lease(
    launch: Start, hosts: OddHosts, tmp_path: Path, small_pipes: tuple[str, ...]
) -> None:
    where = cluster(tmp_path, "localhost", "frozen", lease="1s", start="4s")
    started = launch(*where, "--", "true", env=hosts.environment(os.environ["PATH"]), under=small_pipes)

    assert started.wait() == 3
    assert "frozen: no answer in time (timeouts.start)" in started.stderr
    assert "no sign of life" not in started.stderr


@pytest.fixture
def silent_server() -> Iterator[int]:
    """A port of this machine where connections are accepted, and nothing is ever said."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        yield server.getsockname()[1]


def test_a_server_that_says_nothing_is_told_after_the_time_for_connecting(
    launch: Start, tmp_path: Path, silent_server: int, need: Callable[..., None]
) -> None:
    need("ssh", "openssh-client")
    way = {"connect_timeout": "3s", "options": ["-p", str(silent_server)]}
    hosts = [{"host": "localhost", "workers": 1}, {"host": "127.0.0.1", "workers": 1, "ssh": way}]
    started = launch(*cluster_file(tmp_path, hosts, {"lease": "1s"}, {}), "--", "true")

    assert started.wait() == 3
    assert "127.0.0.1: " in started.stderr
    assert "no sign of life" not in started.stderr


def test_ctrl_c_is_acted_on_while_a_server_says_nothing(
    launch: Start, tmp_path: Path, silent_server: int, need: Callable[..., None]
) -> None:
    need("ssh", "openssh-client")
    way = {"options": ["-p", str(silent_server)]}
    started = launch(*cluster_file(tmp_path, [{"host": "127.0.0.1", "workers": 1, "ssh": way}], {}, {}), "--", "true")
    started.await_event("host_awaited")
    started.signal(signal.SIGINT)

    assert started.wait() == 130


def test_a_run_needs_no_large_pipes(launch: Start, small_pipes: tuple[str, ...]) -> None:
    started = launch("--workers", "2", *program("flood", "1000000"), under=small_pipes)

    assert started.succeeded()
    assert len(started.log("worker-0")) >= 1_000_000
