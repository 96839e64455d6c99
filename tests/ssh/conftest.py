"""Real launches on several hosts, and the proof after each test that nothing of them is left on any machine."""

from __future__ import annotations

import contextlib
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import psutil
import pytest
from rig import Host, Rig, missing
from rig.cable import HAS_IPV6
from support.launching import MARK, NOT_INHERITED, ROOT, Launch, cluster_file, launches, nothing_left

LAST_MOMENTS = 10.0
"""Seconds that a process on a host gets to end after the test, on a busy machine, too: what is left then is left."""


@pytest.fixture(scope="session", autouse=True)
def possible() -> None:
    """Skip every test here, by whatever way it makes its hosts, on a machine that cannot have any."""
    if reason := missing():
        pytest.skip(reason)


@pytest.fixture(scope="session")
def rig(possible: None) -> Iterator[Rig]:
    """Three hosts and the machine from which people log in to them; this checkout is on none of the three."""
    # What sshs agree on by themselves takes twice the time of all the rest of a connection.
    with Rig(private=[ROOT]) as rig, rig.ssh.configured("*", "KexAlgorithms curve25519-sha256"):
        yield rig


@pytest.fixture
def ipv6(possible: None) -> None:
    """Skip a test about IPv6 where this machine's kernel has none."""
    if not HAS_IPV6:
        pytest.skip("needs IPv6 in the kernel (which ipv6.disable=1 on its command line turns off)")


@pytest.fixture
def hosts(rig: Rig) -> Iterator[tuple[Host, ...]]:
    """The three hosts, whole and empty. A test may break them; what it has started there has to be gone at its end."""
    yield rig.hosts
    for host in rig.hosts:
        host.clear()
    left = left_after(LAST_MOMENTS, rig)
    for host in rig.hosts:
        if host in left:
            host.boot()
        host.empty_disk()
    assert not left


def left_after(seconds: float, rig: Rig) -> dict[Host, list[str]]:
    """The command lines that are then still found on each host; none as soon as there are none."""
    deadline = time.monotonic() + seconds
    while (
        left := {host: found for host in rig.hosts if (found := command_lines(host))}
    ) and time.monotonic() < deadline:
        time.sleep(0.01)
    return left


def command_lines(host: Host) -> list[str]:
    """Of all that runs there and is not the rig's."""
    found = []
    for process in host.processes():
        with contextlib.suppress(psutil.NoSuchProcess):
            found.append(" ".join(process.cmdline()))
    return found


@pytest.fixture
def mark() -> Iterator[str]:
    """A mark in the environment of all that starts on the login machine; what bears it after the test is an orphan."""
    with nothing_left() as mark:
        yield mark


@pytest.fixture
def environment(mark: str, rig: Rig) -> Iterator[dict[str, str]]:
    """The environment of the launchers of a test."""
    with environment_of_launchers(mark, rig) as environment:
        yield environment


@contextlib.contextmanager
def environment_of_launchers(mark: str, rig: Rig) -> Iterator[dict[str, str]]:
    """It has a TMPDIR that must be empty again afterwards. Its `ssh` is the rig's, which knows the hosts by name."""
    own = {key: value for key, value in os.environ.items() if not key.startswith((*NOT_INHERITED, "SSH_"))}
    with tempfile.TemporaryDirectory(prefix="tmp-") as temporary:  # pytest's are too deep for the name of a socket
        yield {**own, **rig.environment, "PYTHONPATH": str(ROOT), "TMPDIR": temporary, MARK: mark}
        assert not list(Path(temporary).iterdir())


@pytest.fixture(scope="session")
def shared_launches(rig: Rig) -> Callable[[Path], AbstractContextManager[Callable[..., Launch]]]:
    """What starts launchers in a directory on the login machine for several tests; nothing of them is left on any."""

    @contextlib.contextmanager
    def launches_in(place: Path) -> Iterator[Callable[..., Launch]]:
        with nothing_left() as mark, environment_of_launchers(mark, rig) as environment:
            with launches(place, environment, rig.login.words) as start:
                yield start
            for host in rig.hosts:
                host.empty_disk()

    return launches_in


@pytest.fixture
def launch(
    tmp_path: Path, environment: dict[str, str], rig: Rig, hosts: tuple[Host, ...]
) -> Iterator[Callable[..., Launch]]:
    """Start `launch --run-dir <fresh> ARGUMENTS` on the login machine; stdout and stderr are read by `Launch`."""
    with launches(tmp_path, environment, rig.login.words) as start:
        yield start


@pytest.fixture
def cluster(tmp_path: Path) -> Callable[..., tuple[str, str]]:
    """Write a cluster file of these hosts; return the options that name it.

    A host is a `Host`, which gets one worker, or all that the file has for it.
    """

    def write(
        *hosts: Host | Mapping[str, Any], timeouts: Mapping[str, str] | None = None, **keys: Any
    ) -> tuple[str, str]:
        each = [{"host": host.name, "workers": 1} if isinstance(host, Host) else dict(host) for host in hosts]
        return cluster_file(tmp_path, each, timeouts, keys)

    return write
