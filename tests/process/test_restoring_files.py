"""Each host gets what the chief's newest checkpoint consists of, whole or not at all: real agents, real files."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.gathering_host import SHARD, contents
from support.launching import MARK, await_true, disk
from support.modes import obeying_modes
from support.restoring_hosts import RestoringHosts, save, write

from launcher.errors import HostError
from launcher.gathering.conversation import BrokenOffError, HostAwayError
from launcher.on_host.agent.messages import BeginDelivery, Command, DeliverPiece

Made = Callable[..., RestoringHosts]
MB = 1_000_000


@pytest.fixture
def made(tmp_path: Path, mark: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Made]:
    """Make hosts; they end with the test."""
    monkeypatch.setenv(MARK, mark)
    every: list[RestoringHosts] = []

    def make(*arguments: int, **options: bool) -> RestoringHosts:
        every.append(hosts := RestoringHosts(tmp_path, *arguments, **options))
        return hosts

    yield make
    for hosts in every:
        hosts.close()


# ---- what is brought
def test_the_newest_checkpoint_comes_from_the_chiefs_host_to_the_others(made: Made) -> None:
    hosts = made(3)
    save(hosts.output(0), 4)
    newest = save(hosts.output(0), 5, 2 * MB)
    hosts.restore()

    for number in (1, 2):
        assert hosts.there(number) == {**newest, "ckpt/checkpoint": b'model_checkpoint_path: "step-5"\n'}
        assert hosts.left_of(number) == []
    assert sorted(hosts.said) == [f"gpu-{number}: brought ckpt/step-5 (2.0 MB)" for number in (1, 2)]


def test_a_chief_of_this_machine_gives_its_own(made: Made) -> None:
    hosts = made(2, local_chief=True)
    newest = save(hosts.here, 5, named=f"{hosts.here}/ckpt/step-5")
    hosts.restore()

    for number in (0, 1):
        assert hosts.there(number) == {**newest, "ckpt/checkpoint": b'model_checkpoint_path: "step-5"\n'}
    assert b"/run/chief/" in (hosts.here / "ckpt/checkpoint").read_bytes()


def test_a_name_that_leads_nowhere_elsewhere_is_made_relative(made: Made) -> None:
    hosts = made()
    save(hosts.output(0), 5, named=f"{hosts.output(0)}/ckpt/step-5")
    hosts.restore()

    assert hosts.there(1)["ckpt/checkpoint"] == b'model_checkpoint_path: "step-5"\n'
    assert (hosts.here / "ckpt/checkpoint").read_bytes() == b'model_checkpoint_path: "step-5"\n'


def test_what_cannot_be_read_on_the_chiefs_host_keeps_nothing_else_from_coming(made: Made) -> None:
    with obeying_modes():  # the agents, too
        hosts = made(2)
    newest = save(hosts.output(0), 5)
    write(hosts.output(0), "note")
    write(hosts.output(0), "closed.keras")
    for name in ("note", "closed.keras"):
        (hosts.output(0) / name).chmod(0)
    hosts.restore()

    assert hosts.there(1) == {**newest, "ckpt/checkpoint": b'model_checkpoint_path: "step-5"\n'}


def test_what_cannot_be_read_here_is_told_and_not_sent(made: Made) -> None:
    hosts = made(2, local_chief=True)
    save(hosts.here, 3)
    older = hosts.here / "ckpt" / "step-3.index"
    save(hosts.here, 4)
    write(hosts.here, "notes/mine")
    (hosts.here / "ckpt" / f"step-4{SHARD}").chmod(0)
    (hosts.here / "notes").chmod(0)
    with obeying_modes():
        hosts.restore()
    (hosts.here / "notes").chmod(0o700)

    told = [line for line in hosts.said if "cannot be read" in line]
    assert len(told) == 1
    assert "notes (Permission denied)" in told[0]
    assert f"ckpt/step-4{SHARD} (Permission denied)" in told[0]
    assert hosts.there(0)["ckpt/step-3.index"] == older.read_bytes()


def test_what_a_host_has_is_not_sent_again(made: Made) -> None:
    hosts = made()
    save(hosts.output(0), 5)
    hosts.restore()
    hosts.delivered.clear()
    hosts.restore()

    assert hosts.delivered == []
    save(hosts.output(0), 6)
    hosts.restore()
    assert hosts.there(1)["ckpt/checkpoint"] == b'model_checkpoint_path: "step-6"\n'
    assert (hosts.here / "ckpt/step-6.index").exists()


def test_where_hosts_share_a_disk_nothing_is_copied(made: Made) -> None:
    hosts = made(3, shared=True)
    save(hosts.output(0), 5)
    before = hosts.there(0)
    hosts.restore()

    assert (hosts.delivered, hosts.said) == ([], [])
    assert contents(hosts.here) == {}
    assert hosts.there(0) == before


def test_an_empty_output_directory_needs_nothing(made: Made) -> None:
    hosts = made()
    hosts.restore()

    assert (hosts.delivered, hosts.said) == ([], [])


# ---- all start from the same one
def test_a_chief_that_came_back_with_an_empty_disk_gets_what_was_gathered(made: Made) -> None:
    hosts = made()
    newest = save(hosts.here, 5)
    hosts.restore()

    for number in (0, 1):
        assert hosts.there(number) == {**newest, "ckpt/checkpoint": b'model_checkpoint_path: "step-5"\n'}


def test_a_chief_that_moved_to_another_host_goes_on_in_the_same_files(made: Made) -> None:
    hosts = made()
    save(hosts.here, 5)  # by an earlier run, whose chief was on this machine
    hosts.restore()
    newest = save(hosts.output(0), 6)
    hosts.restore()

    for number in (0, 1):
        assert newest.items() <= hosts.there(number).items()
        assert hosts.there(number)["ckpt/checkpoint"] == b'model_checkpoint_path: "step-6"\n'
    assert (hosts.here / "ckpt/checkpoint").read_bytes() == b'model_checkpoint_path: "step-6"\n'


def test_what_the_program_has_removed_on_purpose_does_not_come_back(made: Made) -> None:
    hosts = made()
    save(hosts.here, 9)
    (hosts.here / "ckpt/checkpoint").unlink()
    newest = save(hosts.output(0), 5)
    hosts.restore(intact=True)

    assert hosts.there(1) == {**newest, "ckpt/checkpoint": b'model_checkpoint_path: "step-5"\n'}
    assert "ckpt/step-9.index" not in hosts.there(0)


def test_a_host_with_a_newer_one_starts_from_the_chiefs_too(made: Made) -> None:
    hosts = made()
    save(hosts.here, 5)
    stale = save(hosts.output(1), 9)
    hosts.restore()

    there = hosts.there(1)
    assert there["ckpt/checkpoint"] == b'model_checkpoint_path: "step-5"\n'
    assert stale.items() <= there.items()


def test_what_was_gathered_without_its_name_is_named(made: Made) -> None:
    hosts = made()
    save(hosts.here, 5)
    newest = save(hosts.here, 6)
    write(hosts.here, "ckpt/checkpoint", b'model_checkpoint_path: "step-5"\nlast: 1\n')
    hosts.restore()

    for number in (0, 1):
        assert newest.items() <= hosts.there(number).items()
        assert hosts.there(number)["ckpt/checkpoint"] == b'model_checkpoint_path: "step-6"\nlast: 1\n'


def test_the_one_that_is_named_comes_even_if_another_is_newer(made: Made) -> None:
    hosts = made()
    named = save(hosts.output(0), 5)
    newest = save(hosts.output(0), 6)
    write(hosts.output(0), "ckpt/checkpoint", b'model_checkpoint_path: "step-5"\n', mtime=1e9 + 7)
    hosts.restore()

    assert hosts.there(1) == {**named, **newest, "ckpt/checkpoint": b'model_checkpoint_path: "step-5"\n'}


# ---- the host's own
def test_a_note_that_a_host_made_itself_stays_its_own(made: Made) -> None:
    hosts = made()
    save(hosts.output(0), 5)
    write(hosts.output(0), "history.csv", b"the chief's")
    write(hosts.output(0), "state.json", b"the chief's")
    write(hosts.output(1), "history.csv", b"its own")
    hosts.restore()
    assert hosts.there(1)["history.csv"] == b"its own"
    assert hosts.there(1)["state.json"] == b"the chief's"

    write(hosts.output(0), "state.json", b"newer", mtime=2e9)
    hosts.restore()
    assert hosts.there(1)["state.json"] == b"newer"


def test_many_small_files_and_empty_ones_come(made: Made) -> None:
    hosts = made()
    for number in range(900):
        write(hosts.output(0), f"notes/{number}.json", b"" if number % 2 else b"{}")
    hosts.restore()

    assert hosts.there(1) == hosts.there(0)


def test_a_link_in_the_way_is_not_followed(made: Made, tmp_path: Path) -> None:
    hosts = made()
    save(hosts.output(0), 5)
    (tmp_path / "elsewhere").mkdir()
    (hosts.output(1) / "ckpt").symlink_to(tmp_path / "elsewhere")

    with pytest.raises(HostError, match=r"gpu-1: .*/output/ckpt/step-5.*: Not a directory; something else stands"):
        hosts.restore()
    assert contents(tmp_path / "elsewhere") == {}
    assert hosts.left_of(1) == []


# ---- what goes wrong
def test_a_broken_link_leaves_nothing_half_done(made: Made) -> None:
    hosts = made()
    save(hosts.output(0), 5, 3 * MB)
    hosts.on_delivery = lambda host, step: hosts.cut(1) if len(hosts.delivered) == 5 else None

    with pytest.raises(HostError, match="gpu-1 was lost while the newest checkpoint was brought: the link is cut"):
        hosts.restore()
    assert hosts.there(1) == {}


def test_what_arrives_otherwise_than_it_was_sent_is_dropped(made: Made) -> None:
    hosts = made()
    save(hosts.output(0), 5, 3 * MB)
    deliver = hosts._deliver

    def garbled(host: str, command: Command) -> None:
        if isinstance(command, DeliverPiece):
            command = command.replaced({"data": bytes(len(command.data))})
        deliver(host, command)

    hosts._deliver = garbled  # type: ignore[method-assign]
    with pytest.raises(HostError, match=r"gpu-1: .*what came of it is not what was sent"):
        hosts.restore()
    assert hosts.there(1) == {}
    assert hosts.left_of(1) == []


def test_a_full_disk_is_told_with_the_room_that_is_needed(made: Made, tmp_path: Path) -> None:
    hosts = made()
    save(hosts.output(0), 5, 3 * MB)
    hosts.output(1).rmdir()
    with disk(tmp_path / "gpu-1", megabytes=2):
        with pytest.raises(HostError, match=r"gpu-1: no room in .*/gpu-1/output .*: 3.0 MB are needed, .* are free"):
            hosts.restore()
        assert hosts.there(1) == {}
        await_true(lambda: hosts.left_of(1) == [], "nothing is left there", lambda: hosts.left_of(1))


def test_what_an_agent_that_was_killed_has_left_goes(made: Made) -> None:
    hosts = made()
    save(hosts.output(0), 5)
    write(hosts.output(1).parent, ".bringing-gpu-1/0", b"half")
    write(hosts.output(1).parent, ".bringing-another/0", b"another host's")
    hosts.restore()

    assert hosts.left_of(1) == [".bringing-another"]


def test_an_errand_that_nobody_waits_for_is_broken_off(made: Made) -> None:
    hosts = made()
    save(hosts.output(0), 5, 3 * MB)
    hosts.on_delivery = lambda host, step: hosts.gathering.break_off_errands() if step is BeginDelivery else None

    with pytest.raises(BrokenOffError):
        hosts.restore()
    assert hosts.there(1) == {}
    hosts.on_delivery = lambda _host, _step: None
    hosts.restore()
    assert "ckpt/step-5.index" in hosts.there(1)


def test_a_look_that_is_under_way_is_broken_off_for_it(made: Made) -> None:
    hosts = made(interval=0.01)
    comes, goes_on = threading.Event(), threading.Event()
    hosts.on_piece = lambda: (comes.set(), goes_on.wait(60))
    write(hosts.output(0), "predictions.npy", os.urandom(5 * MB))
    assert comes.wait(60)
    was_there: list[bool] = []
    errand = hosts.gathering.errand("gpu-0", lambda _: was_there.append((hosts.here / "predictions.npy").exists()))
    goes_on.set()

    errand.result(60)
    assert was_there == [False]
    await_true(lambda: contents(hosts.here) == hosts.there(0), "the look goes on")


def test_an_errand_on_a_host_that_is_lost_is_over_at_once(made: Made) -> None:
    hosts = made()
    hosts.cut(1)
    await_true(lambda: "gpu-1" in hosts.gathering.losses, "the loss is heard of")
    errand = hosts.gathering.errand("gpu-1", lambda _: None)

    assert isinstance(errand.exception(60), HostAwayError)
