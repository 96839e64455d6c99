"""The small parts of sending a project: what rsync is told, what the user is told."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from launcher.errors import HostError
from launcher.hosts.agent_process import COMPLAINT_SIZE
from launcher.on_host.agent.messages import Event, ProjectFile, ProjectPieceBrought, ProjectSettled
from launcher.sync import rsync
from launcher.sync.complaints import failed, no_room
from launcher.sync.exchange import MOST_UNHEARD, Exchange
from launcher.sync.project import Project
from launcher.sync.rsync import Rsync, rsh, rsync_argv


def test_a_failure_names_host_place_reason_and_remedy() -> None:
    assert failed("gpu", "/data/p", "a/b", "EACCES", "Permission denied") == (
        "gpu: /data/p/a/b: Permission denied; change its permissions, or name a `workdir` that you can write to"
    )


def test_a_full_disk_names_what_is_needed() -> None:
    assert no_room("gpu", "/data/p", 2_000_000_000, 1000).startswith(
        "gpu: /data/p: the project needs 2.0 GB there, 1.0 kB are free; make room there"
    )


@pytest.mark.parametrize("words", [["ssh"], ["ssh", "-F", "/a b/c", "-o", "User=it's"], ["ssh", '"', "", "a\\b"]])
def test_rsync_calls_ssh_with_the_words_of_the_connection(
    words: list[str], tmp_path: Path, need: Callable[..., None]
) -> None:
    """Asked of rsync itself: it runs what stands for ssh here, which tells its arguments."""
    need("rsync")
    program = tmp_path / "program"
    program.write_text('#!/bin/sh\nprintf "%s\\0" "$@" >"$0.told"\nexit 1\n')
    program.chmod(0o755)
    argv = rsync_argv("me@gpu", [str(program), *words], f"{tmp_path}/", "/there")
    subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True)

    told = (tmp_path / "program.told").read_text().split("\0")
    assert told[: len(words)] == words
    assert told[len(words) :][:4] == ["-l", "me", "gpu", "rsync"]


@pytest.mark.parametrize(
    ("does", "reason"),
    [
        ("exec sleep 1000", "timeout"),
        ("exec cat /dev/zero 2>/dev/null", "protocol version mismatch"),
        (f"echo first >&2; exec head -c {2 * COMPLAINT_SIZE} /dev/zero >&2", "first"),
    ],
    ids=["says nothing", "prints without end", "complains without end"],
)
def test_rsync_ends_whatever_its_ssh_does(
    does: str, reason: str, tmp_path: Path, need: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    need("rsync")
    monkeypatch.setattr(rsync, "SILENCE", 1)
    (tmp_path / "file").write_text("content")
    reason_given = Rsync("gpu", ["sh", "-c", does], tmp_path).send(
        "/there", [ProjectFile("file", 7, 0, 0o644, None)], lambda _: None
    )

    assert reason in reason_given


@pytest.mark.parametrize("answer", [ProjectPieceBrought(), ProjectSettled([0] * 1000)])
def test_a_host_that_answers_more_than_it_was_asked_fills_no_memory(tmp_path: Path, answer: Event) -> None:
    exchange = Exchange("gpu", "/there", Project(tmp_path, ()), lambda _: None, lambda _: None, None)
    for _ in range(MOST_UNHEARD + 10):
        exchange.hear(answer)

    with pytest.raises(HostError, match="gpu: it sends more than was asked of it"):
        exchange.bring()


def test_an_ipv6_address_stands_in_brackets() -> None:
    assert rsync_argv("fd77::11", ["ssh"], "/here/", "/a b")[-2:] == ["/here/", "[fd77::11]:/a b/"]


def test_quotes_are_doubled() -> None:
    assert rsh(["a", "it's"]) == "'a' 'it''s'"
    assert shlex.split(rsh(["a b", "c"])) == ["a b", "c"]
