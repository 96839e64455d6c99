"""Files that are brought to a host for the next attempt, into a directory in which somebody has planted things."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest

from launcher.on_host.agent.deliveries import Deliveries
from launcher.on_host.agent.messages import (
    BeginDelivery,
    DeliverPiece,
    DeliveryPlaced,
    DeliveryReady,
    FilesFailed,
    PieceDelivered,
    PlaceDelivery,
)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run's directory on a host."""
    run = tmp_path / "run"
    run.mkdir(mode=0o700)
    return run


def delivered(run: Path, path: str = "ckpt/step-1.index") -> list[Any]:
    """What is told of one file that is brought."""
    told: list[Any] = []
    deliveries = Deliveries(told.append)
    commands = (
        BeginDelivery(1, str(run / "output"), str(run / ".bringing-gpu-a")),
        DeliverPiece(1, 0, path, b"content"),
        PlaceDelivery(1, [(path, 7, 10**18, hashlib.sha256(b"content").hexdigest())]),
    )
    for command in commands:
        deliveries.handlers()[type(command)](command)
    deliveries.close()
    return told


def test_what_is_brought_gets_to_its_place_and_nothing_else_stays(run: Path) -> None:
    assert list(map(type, delivered(run))) == [DeliveryReady, PieceDelivered, DeliveryPlaced]
    assert (run / "output" / "ckpt" / "step-1.index").read_bytes() == b"content"
    assert (run / "output" / "ckpt" / "step-1.index").stat().st_mtime_ns == 10**18
    assert [path.name for path in run.iterdir()] == ["output"]


def test_a_linked_place_for_what_comes_is_removed_and_what_it_leads_to_is_left_alone(run: Path) -> None:
    victim = run.parent / "victim"
    victim.mkdir()
    (victim / "0").write_text("mine")
    (run / ".bringing-gpu-a").symlink_to(victim)
    assert delivered(run)[-1] == DeliveryPlaced(1)
    assert (victim / "0").read_text() == "mine"
    assert [path.name for path in victim.iterdir()] == ["0"]


@pytest.mark.parametrize("linked", ["output/ckpt", "output/ckpt/step-1.index"])
def test_nothing_is_placed_behind_a_link(run: Path, linked: str) -> None:
    victim = run.parent / "victim"
    victim.mkdir()
    (victim / "file").write_text("mine")
    (run / linked).parent.mkdir(parents=True)
    (run / linked).symlink_to(victim if linked.endswith("ckpt") else victim / "file")
    delivered(run)
    assert (victim / "file").read_text() == "mine"
    assert [path.name for path in victim.iterdir()] == ["file"]


def test_another_directory_in_the_place_of_the_runs_takes_nothing(run: Path) -> None:
    (run.parent / "victim").mkdir()
    run.rmdir()
    run.symlink_to("victim")
    [told] = delivered(run)
    assert (type(told), told.path) == (FilesFailed, str(run))
    assert "not the directory that was made here" in told.reason
    assert list((run.parent / "victim").iterdir()) == []


def test_an_output_directory_that_the_user_has_moved_takes_what_comes(run: Path) -> None:
    (run.parent / "disk").mkdir()
    (run / "output").symlink_to(run.parent / "disk")
    assert delivered(run)[-1] == DeliveryPlaced(1)
    assert (run.parent / "disk" / "ckpt" / "step-1.index").read_bytes() == b"content"
