"""Gathering as a whole: who is asked for what, when it is over, and what is said of it. The agents here are played."""

from __future__ import annotations

import contextlib
import itertools
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.launching import await_true

from launcher.gathering.conversation import ANSWER_COST, MOST_UNHEARD, BrokenOffError, Conversation, HostAwayError
from launcher.gathering.gathering import Gathering
from launcher.gathering.host_gatherer import HostGatherer
from launcher.gathering.record import Record, in_turn
from launcher.hosts.events import Answer, HostLost
from launcher.on_host.agent.messages import (
    Command,
    Event,
    FilePiece,
    FilesArrived,
    FileSent,
    FilesFailed,
    FilesListed,
    FilesListEnded,
    ListFiles,
)
from launcher.run_directory.directory import RunDirectory
from launcher.run_directory.state import RunHost

Play = Callable[[str, Command], Iterator[Event]]
PATIENCE = 30.0
LOCAL = RunHost("localhost", ("worker-0",), "/run", "/run/chief")
CHIEF = RunHost("gpu-a", ("worker-0",), "/a/run", "/a/run/output")
OTHER = RunHost("gpu-b", ("worker-1",), "/b/run", "/b/run/output")


def empty(_host: str, asked: Command) -> Iterator[Event]:
    """A host that has no files."""
    if isinstance(asked, ListFiles):
        yield FilesListed(asked.number, [], [], [])
        yield FilesListEnded(asked.number, 0)


def silent(_host: str, _asked: Command) -> Iterator[Event]:
    """A host that never answers."""
    yield from ()


class Played:
    """A gathering whose agents are played by a function."""

    def __init__(self, directory: Path, answer: Play = empty, **options: Any) -> None:
        self.asked: list[tuple[str, Command]] = []
        self.said: list[str] = []
        self.refused: list[tuple[str, str]] = []
        self.over = threading.Event()
        self.answer = answer
        run = RunDirectory(directory)
        run.make_chief()
        run.make_attempt(0)
        self.gathering = Gathering(run, ["export"], self._ask, self._say, self.over.set, refuse=self._refuse, **options)

    def begin(self, *hosts: RunHost, lost: str = "") -> None:
        self.gathering.begin(hosts, lambda name: name == lost)

    def _ask(self, host: str, command: Command) -> None:
        self.asked.append((host, command))
        for message in self.answer(host, command):
            self.gathering.hear(Answer(host, message))

    def _refuse(self, host: str, why: str) -> None:
        self.refused.append((host, why))

    def _say(self, text: str, *, error: bool = False) -> None:
        self.said.append(text)

    def finished(self) -> Gathering:
        """All has come that will come."""
        self.gathering.finish()
        assert self.over.wait(PATIENCE)
        assert self.gathering.is_over
        return self.gathering

    def roots(self) -> list[tuple[str, str]]:
        """Which directory of which host was asked for."""
        return sorted((host, asked.root) for host, asked in self.asked if isinstance(asked, ListFiles))


def test_without_other_hosts_it_is_over_at_once(tmp_path: Path) -> None:
    played = Played(tmp_path)
    played.begin(LOCAL)

    assert played.finished().tell("again")
    assert (played.asked, played.said) == ([], [])


def test_every_host_is_asked_for_logs_and_the_chiefs_for_its_output(tmp_path: Path) -> None:
    played = Played(tmp_path)
    played.begin(CHIEF, OTHER)
    assert played.roots() == []  # not before the end

    assert played.finished().tell("again")
    assert played.roots() == [
        ("gpu-a", "/a/run"),
        ("gpu-a", "/a/run/output"),
        ("gpu-b", "/b/run"),
        ("gpu-b", "/b/run/output"),
    ]


def test_a_chief_of_this_machine_is_not_asked(tmp_path: Path) -> None:
    played = Played(tmp_path)
    played.begin(LOCAL, OTHER)
    played.finished()

    assert played.roots() == [("gpu-b", "/b/run"), ("gpu-b", "/b/run/output")]


def test_what_only_another_host_has_is_told_with_its_place(tmp_path: Path) -> None:
    def answer(host: str, asked: Command) -> Iterator[Event]:
        if isinstance(asked, ListFiles) and asked.root == OTHER.output_dir:
            yield FilesListed(asked.number, [("own/a.csv", 7, 1), ("shared.txt", 4, 5), ("x.tmp", 1, 1)], [], [])
            yield FilesListEnded(asked.number, 0)
        else:
            yield from empty(host, asked)

    (tmp_path / "chief").mkdir()
    (tmp_path / "chief" / "shared.txt").write_bytes(b"1234")
    os.utime(tmp_path / "chief" / "shared.txt", ns=(5, 5))
    played = Played(tmp_path, answer)
    played.begin(LOCAL, OTHER)

    assert played.finished().tell("again")
    assert played.said[1:] == ["stays on gpu-b, in /b/run/output: own (1 file, 7 B)"]


def test_logs_that_go_on_being_written_are_left(tmp_path: Path) -> None:
    played = Played(tmp_path, still_running=True)
    played.begin(CHIEF, OTHER)
    played.finished()

    assert played.roots() == [("gpu-a", "/a/run/output")]


def test_the_end_of_a_run_waits_for_its_turn_beside_another_launcher(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits = threading.Event()

    def seen(step: Callable[[], object], pause: Callable[[float], object]) -> object:
        return in_turn(step, lambda seconds: (waits.set(), pause(seconds)))

    monkeypatch.setattr(HostGatherer.__module__ + ".in_turn", seen)
    played = Played(tmp_path)
    with contextlib.closing(Record(tmp_path / "gathered.jsonl")):
        played.begin(CHIEF)
        played.gathering.finish()
        assert waits.wait(PATIENCE)
        assert not played.over.is_set()

    assert played.over.wait(PATIENCE)
    assert played.gathering.tell("again")
    assert not any("another launcher" in line for line in played.said)


def test_the_run_goes_on_and_new_files_are_looked_for(tmp_path: Path) -> None:
    played = Played(tmp_path, interval=0.001)
    third = threading.Event()

    def answer(host: str, asked: Command) -> Iterator[Event]:
        if len(played.roots()) == 3:
            third.set()
        yield from empty(host, asked)

    played.answer = answer
    played.begin(CHIEF, OTHER)

    assert third.wait(PATIENCE)
    assert set(played.roots()) == {("gpu-a", "/a/run/output")}
    played.finished()


def test_an_answer_that_nobody_waits_for_changes_nothing(tmp_path: Path) -> None:
    played = Played(tmp_path, interval=3600)
    played.begin(CHIEF)
    played.gathering.hear(Answer("gpu-a", FilePiece(99, 0, b"12345")))
    played.finished()

    assert ("gpu-a", FilesArrived(5)) in played.asked
    assert played.roots() == [("gpu-a", "/a/run"), ("gpu-a", "/a/run/output")]


def test_a_host_that_is_lost_is_named_with_what_it_has(tmp_path: Path) -> None:
    played = Played(tmp_path, silent)
    played.begin(CHIEF, OTHER)
    played.gathering.finish()
    played.gathering.hear(HostLost("gpu-a", "the link is cut"))
    assert not played.over.is_set()
    played.gathering.hear(HostLost("gpu-b", "the link is cut"))
    assert played.over.wait(PATIENCE)

    assert not played.gathering.tell("launch collect runs/x")
    assert played.said == [
        "gpu-a is away (the link is cut): export and the logs of worker-0 are not all here. What is missing stays "
        "there, in /a/run.\n  when it is back: launch collect runs/x",
        "gpu-b is away (the link is cut): the logs of worker-1 are not all here. What is missing stays there, "
        "in /b/run.\n  when it is back: launch collect runs/x",
    ]


def test_a_host_that_was_lost_before_is_not_waited_for(tmp_path: Path) -> None:
    played = Played(tmp_path, silent)
    played.begin(OTHER, lost="gpu-b")

    assert isinstance(played.finished().outcomes[0].trouble, HostAwayError)


def test_a_host_that_is_back_is_gathered_from(tmp_path: Path) -> None:
    played = Played(tmp_path)
    played.begin(CHIEF, OTHER)
    played.gathering.hear(HostLost("gpu-b", "the link is cut"))
    played.begin(CHIEF, OTHER)

    assert played.finished().tell("again")
    assert ("gpu-b", "/b/run") in played.roots()


def test_a_user_who_does_not_want_to_wait_need_not(tmp_path: Path) -> None:
    played = Played(tmp_path, silent)
    played.begin(CHIEF, OTHER)
    played.gathering.finish()
    played.gathering.give_up()

    assert played.over.wait(PATIENCE)
    assert not played.gathering.tell("again")


@pytest.mark.parametrize(
    "answer",
    [
        lambda number: FilesListEnded(number, 1 << 80),
        lambda number: FileSent(number, 1, "", 1, unchanged=True),
        lambda number: FilesFailed(number, "", "", "no"),
    ],
)
def test_an_agent_that_makes_no_sense_is_away(tmp_path: Path, answer: Callable[[int], Event]) -> None:
    played = Played(tmp_path, lambda _host, asked: iter([answer(asked.number)] if isinstance(asked, ListFiles) else []))
    played.begin(OTHER)

    (outcome,) = played.finished().outcomes
    assert isinstance(outcome.trouble, HostAwayError)
    assert played.refused == [("gpu-b", str(outcome.trouble))]


def test_the_newest_step_is_asked_for_before_everything_else(tmp_path: Path) -> None:
    looking, asked = threading.Event(), threading.Event()
    files = [("export/s-7.index", 1, 2), ("export/s-7.data-00000-of-00001", 1, 1)]

    def answer(host: str, command: Command) -> Iterator[Event]:
        if isinstance(command, ListFiles) and not looking.is_set():
            looking.set()  # this look is never answered
        elif isinstance(command, ListFiles):
            asked.wait(PATIENCE)
            yield FilesListed(command.number, files, [], [])
            yield FilesListEnded(command.number, 0)

    played = Played(tmp_path, answer, interval=0.001)
    played.begin(CHIEF)
    assert looking.wait(PATIENCE)
    step = played.gathering.ask_newest_step()
    assert not step.done()
    asked.set()

    assert played.over.wait(PATIENCE)
    assert step.result(PATIENCE) == 7


def test_an_errand_that_takes_too_long_is_broken_off_for_the_next(tmp_path: Path) -> None:
    played = Played(tmp_path, silent)
    played.begin(CHIEF)
    step = played.gathering.ask_newest_step()
    done = threading.Event()
    played.gathering.errand(CHIEF.name, lambda _: done.set())

    assert done.wait(PATIENCE)
    assert isinstance(step.exception(PATIENCE), BrokenOffError)


def test_what_is_broken_off_or_asked_once_the_run_has_ended_costs_no_file(tmp_path: Path) -> None:
    done = threading.Event()

    def answer(host: str, asked: Command) -> Iterator[Event]:
        if len(played.roots()) == 1:
            played.gathering.break_off_errands()
        elif len(played.roots()) == 2:
            played.gathering.errand(CHIEF.name, lambda _: done.set())
        yield from empty(host, asked)

    played = Played(tmp_path, answer)
    played.begin(CHIEF)
    played.gathering.finish()
    await_true(lambda: played.gathering.is_over, "all is over")

    assert played.gathering.tell("again")
    assert done.is_set()
    assert played.roots() == [*[("gpu-a", "/a/run")] * 3, ("gpu-a", "/a/run/output")]


@pytest.mark.parametrize("hosts", [(), (LOCAL,), (LOCAL, OTHER)])
def test_nobody_else_is_asked_for_the_newest_step(tmp_path: Path, hosts: tuple[RunHost, ...]) -> None:
    played = Played(tmp_path)
    played.begin(*hosts)

    assert played.gathering.ask_newest_step().result(0) is None
    assert played.asked == []


def test_a_lost_host_does_not_tell_the_newest_step(tmp_path: Path) -> None:
    played = Played(tmp_path, silent)
    played.begin(CHIEF)
    step = played.gathering.ask_newest_step()
    played.gathering.hear(HostLost("gpu-a", "the link is cut"))

    assert played.over.wait(PATIENCE)
    assert isinstance(step.exception(0), HostAwayError)
    assert isinstance(played.gathering.ask_newest_step().exception(0), HostAwayError)


# ---- what nobody waits for
def test_a_host_that_sends_faster_than_it_may_fills_no_memory() -> None:
    piece = bytes(1 << 20)
    conversation = Conversation(lambda *_, **__: None, itertools.count(1))
    for _ in range(2000):
        conversation.hear(FilePiece(1, 0, piece))
    waiting = conversation.left_unheard()

    assert sum(len(each.data) for each in waiting if isinstance(each, FilePiece)) <= MOST_UNHEARD
    assert str(waiting[-1]) == "it sends more than was asked of it"


def test_answers_without_end_and_without_content_fill_no_memory() -> None:
    conversation = Conversation(lambda *_, **__: None, itertools.count(1))
    most = MOST_UNHEARD // ANSWER_COST
    for _ in range(most + 1000):
        conversation.hear(FileSent(1, 1, "", 1, unchanged=True))

    assert len(conversation.left_unheard()) <= most + 1
