"""The project arrives on a host, over the connection of a real agent; what is the user's there stays."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable
from pathlib import Path
from queue import SimpleQueue
from typing import cast

import pytest
from support.launching import Launch

from launcher.cluster.cluster import Cluster, Host, Sync
from launcher.errors import HostError, UsageError
from launcher.hosts import events
from launcher.hosts.access import Access
from launcher.hosts.agent_process import AgentProcess
from launcher.hosts.all_hosts import Hosts
from launcher.hosts.connection import Connection
from launcher.hosts.inbox import Inbox
from launcher.hosts.transport import agent_argv
from launcher.on_host.agent.messages import (
    BringProjectPiece,
    Command,
    CompareProject,
    Hello,
    PrepareProject,
    ProjectPieceBrought,
)
from launcher.sync.sending import ProjectSync
from launcher.transfer.outgoing import PIECE

RECORD = ".tf-launch-sync.json"
LEASE = 10.0


class WatchedAccess(Access):
    """The process that it has started can be killed."""

    process: AgentProcess

    def start(self) -> AgentProcess:
        self.process = super().start()
        return self.process


class Agents:
    """Real agents of this machine, for hosts of any name, as `ProjectSync` asks them."""

    def __init__(self, names: list[str], inbox: Inbox) -> None:
        self.ways = {name: WatchedAccess(name, agent_argv("localhost")) for name in names}
        gate = threading.Semaphore(8)
        self.connections = {}
        self.steps: list[type[Command]] = []
        self.before_step: Callable[[type[Command]], None] = lambda _: None
        for name, way in self.ways.items():
            self.connections[name] = Connection(name, [], way, inbox, gate)
            self.connections[name].send(Hello(LEASE, []))

    def send(self, host: str, command: Command) -> None:
        self.before_step(type(command))
        self.steps.append(type(command))
        self.connections[host].send(command)

    def ssh_words(self, host: str) -> tuple[str, ...]:
        return ()

    beat_interval = 1.0

    def beat(self) -> None:
        for connection in self.connections.values():
            connection.beat()

    def close(self) -> None:
        for connection in self.connections.values():
            connection.close()


class Syncing:
    """A project here, directories there, and what the user sees."""

    def __init__(self, tmp_path: Path) -> None:
        self.here, self.there = tmp_path / "here", tmp_path / "there"
        self.here.mkdir()
        self.said: list[str] = []
        self.steps: list[type[Command]] = []

    def __call__(
        self,
        hosts: tuple[str, ...] = ("gpu",),
        before_step: Callable[[type[Command]], None] = lambda _: None,
        observe: Callable[[Agents, events.Event], None] = lambda *_: None,
        apart: bool = False,
    ) -> list[str]:
        """Sync once; return what was said. `apart`: each host has a directory of its own."""
        said: list[str] = []
        inbox: Inbox = SimpleQueue()
        agents = Agents(list(hosts), inbox)
        agents.before_step = before_step
        places = [self.there / name if apart else self.there for name in hosts]
        each = tuple(Host(name, (), workdir=str(place)) for name, place in zip(hosts, places, strict=True))
        sync = ProjectSync(Cluster("c", each, sync=Sync(self.here)), cast(Hosts, agents), inbox, said.append)

        def seen(event: events.Event) -> None:
            observe(agents, event)
            sync.on_event(event)

        try:
            sync.read_project([])
            sync.finish(seen)
        finally:
            sync.close()
            agents.close()
            self.steps = agents.steps
        return said

    def files(self) -> dict[str, str]:
        """What there is, but for the record."""
        return {
            str(path.relative_to(self.there)): str(path.readlink()) if path.is_symlink() else path.read_text()
            for path in sorted(self.there.rglob("*"))
            if (path.is_file() or path.is_symlink()) and path.name != RECORD
        }

    def write(self, **files: str) -> None:
        """Files of the project; `__` stands for a slash."""
        write(self.here, **files)

    def refusal(self) -> str:
        """Why it cannot be synced."""
        before = self.files()
        with pytest.raises(HostError) as raised:
            self()
        assert self.files() == before
        return str(raised.value)


def write(root: Path, **files: str) -> None:
    for name, text in files.items():
        path = root / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def names_in(directory: Path) -> set[str]:
    return {path.name for path in directory.iterdir()}


@pytest.fixture
def sync(tmp_path: Path) -> Syncing:
    return Syncing(tmp_path)


# ---- what arrives
def test_files_arrive_with_their_permissions_and_times(sync: Syncing) -> None:
    sync.write(train="print()", src__model="class Model", src__empty="")
    (sync.here / "link").symlink_to("src/model")
    (sync.here / "train").chmod(0o754)
    os.utime(sync.here / "train", ns=(1, 1_600_000_000_123_456_789))

    assert sync() == ["gpu: project synced, 4 of 4 files, 18 bytes"]
    assert sync.files() == {"link": "src/model", "src/empty": "", "src/model": "class Model", "train": "print()"}
    arrived = (sync.there / "train").stat()
    assert (arrived.st_mode & 0o777, arrived.st_mtime_ns) == (0o754, 1_600_000_000_123_456_789)


def test_a_new_directory_there_is_private(sync: Syncing) -> None:
    sync.write(a="")
    sync.there = sync.there / "deep" / "down"

    sync()

    assert [path.stat().st_mode & 0o777 for path in (sync.there, sync.there.parent)] == [0o700, 0o700]


def test_names_may_be_any_bytes(sync: Syncing) -> None:
    names = [b"\xff\xfe", b"a\nb", b"-rf", b" ", "é".encode(), b"n" * 250]
    for name in names:
        (sync.here / os.fsdecode(name)).write_bytes(name)

    sync()

    assert sorted(os.fsencode(path.name) for path in sync.there.iterdir()) == sorted([*names, RECORD.encode()])
    assert all((sync.there / os.fsdecode(name)).read_bytes() == name for name in names)


def test_a_file_of_many_pieces_arrives_whole(sync: Syncing) -> None:
    content = os.urandom(3 * PIECE + 1)
    (sync.here / "data").write_bytes(content)

    sync()

    assert (sync.there / "data").read_bytes() == content


# ---- only what changed
def test_the_second_time_nothing_is_sent_or_said(sync: Syncing) -> None:
    sync.write(a="1", b__c="2")
    sync()

    assert sync() == []
    assert sync.steps == [CompareProject]


def test_only_what_changed_is_sent(sync: Syncing) -> None:
    sync.write(a="1", b="2")
    sync()
    sync.write(b="3")

    assert sync() == ["gpu: project synced, 1 of 2 files, 1 byte"]
    assert sync.files() == {"a": "1", "b": "3"}


def test_a_file_that_was_only_touched_is_not_sent(sync: Syncing) -> None:
    sync.write(a="1")
    sync()
    os.utime(sync.here / "a", ns=(1, 1))

    sync()

    assert BringProjectPiece not in sync.steps
    assert (sync.there / "a").stat().st_mtime_ns == 1
    assert sync() == []


def test_changed_permissions_alone_are_set(sync: Syncing) -> None:
    sync.write(a="1")
    sync()
    (sync.here / "a").chmod(0o700)

    sync()

    assert (sync.there / "a").stat().st_mode & 0o777 == 0o700
    assert BringProjectPiece not in sync.steps


def test_a_file_that_disappeared_there_is_sent_again(sync: Syncing) -> None:
    sync.write(a="1")
    sync()
    (sync.there / "a").unlink()

    sync()

    assert sync.files() == {"a": "1"}


def test_a_file_and_a_directory_can_change_places(sync: Syncing) -> None:
    sync.write(a="1", b__c="2")
    sync()
    for path in ("a", "b/c"):
        (sync.here / path).unlink()
    (sync.here / "b").rmdir()
    sync.write(a__d="3", b="4")

    sync()

    assert sync.files() == {"a/d": "3", "b": "4"}


def test_a_file_and_a_link_can_change_places(sync: Syncing) -> None:
    sync.write(a="1", b="2")
    (sync.here / "c").symlink_to("a")
    sync()
    for path in ("b", "c"):
        (sync.here / path).unlink()
    (sync.here / "b").symlink_to("a")
    sync.write(c="3")

    sync()

    assert sync.files() == {"a": "1", "b": "a", "c": "3"}
    assert not (sync.there / "c").is_symlink()


# ---- what is deleted, and what is not
def test_what_is_gone_here_is_deleted_there(sync: Syncing) -> None:
    sync.write(a="1", b__c__d="2")
    sync()
    (sync.here / "b/c/d").unlink()

    assert sync() == ["gpu: project synced, 0 of 1 files, 0 bytes, 1 deleted"]
    assert names_in(sync.there) == {RECORD, "a"}


def test_what_was_not_sent_is_never_deleted(sync: Syncing) -> None:
    sync.write(b__c="1", keep="")
    write(sync.there, mine="x", b__mine="y", logs__mine="z")
    sync()
    (sync.here / "b/c").unlink()

    sync()

    assert sync.files() == {"b/mine": "y", "keep": "", "logs/mine": "z", "mine": "x"}


def test_what_was_there_before_with_the_same_contents_is_never_deleted(sync: Syncing) -> None:
    sync.write(a="1", b="2")
    write(sync.there, a="1")
    sync()
    (sync.here / "a").unlink()

    assert sync() == []
    assert sync.files() == {"a": "1", "b": "2"}


def test_what_is_gone_here_and_was_changed_there_stays(sync: Syncing) -> None:
    sync.write(a="1", b="2")
    sync()
    (sync.here / "a").unlink()
    write(sync.there, a="mine")

    said = sync()

    assert said[-1] == "gpu: left there, though gone here, because it was changed there: a"
    assert sync.files() == {"a": "mine", "b": "2"}


def test_names_that_stay_there_stand_on_one_line(sync: Syncing) -> None:
    names = ["a\n[launch] done in 1.0 s", "b\x1b[2J\u202e", *map(str, range(9))]
    for name in names:
        (sync.here / name).write_text("1")
    sync()
    for name in names:
        (sync.here / name).unlink()
        (sync.there / name).write_text("mine")
    sync.write(kept="1")

    told = sync()[-1]

    assert told.isprintable()
    assert told.endswith(" and 6 more")


def test_an_empty_directory_of_the_user_stays(sync: Syncing) -> None:
    (sync.there / "out").mkdir(parents=True)
    sync.write(out__a="1", b="2")
    sync()
    (sync.here / "out/a").unlink()

    sync()

    assert (sync.there / "out").is_dir()


# ---- what is in the way
def test_a_file_that_was_changed_there_ends_it(sync: Syncing) -> None:
    sync.write(a="1", b="2")
    sync()
    write(sync.there, a="mine")
    sync.write(a="3", b="4")

    said = sync.refusal()

    assert f"gpu: {sync.there}/a was changed there since it was sent\n" in said
    assert f"mv {sync.there}/a {sync.there}/a.old; or name another `workdir`" in said


def test_a_file_that_was_there_before_and_differs_ends_it(sync: Syncing) -> None:
    sync.write(a="1", b="22")
    write(sync.there, a="x", b="y")

    said = sync.refusal()

    assert f"gpu: {sync.there}/a is a file that differs there\ngpu: {sync.there}/b is a file that differs there" in said
    assert not (sync.there / RECORD).exists()


def test_the_same_change_on_both_sides_is_none(sync: Syncing) -> None:
    sync.write(a="1")
    sync()
    sync.write(a="22")
    write(sync.there, a="22")

    sync()

    assert BringProjectPiece not in sync.steps
    sync.write(a="3")
    sync()
    assert sync.files() == {"a": "3"}


@pytest.mark.parametrize("what", ["directory", "symbolic link"])
def test_something_else_in_the_place_of_a_file_ends_it(sync: Syncing, what: str) -> None:
    sync.write(a="1")
    sync.there.mkdir()
    (sync.there / "a").mkdir() if what == "directory" else (sync.there / "a").symlink_to("elsewhere")

    assert f"gpu: {sync.there}/a is a {what} there" in sync.refusal()


def test_nothing_is_put_behind_a_link_of_the_user(sync: Syncing, tmp_path: Path) -> None:
    sync.write(data__a="1")
    (tmp_path / "elsewhere").mkdir()
    sync.there.mkdir()
    (sync.there / "data").symlink_to(tmp_path / "elsewhere")

    assert f"{sync.there}/data/a cannot be put there: data is a symbolic link" in sync.refusal()
    assert names_in(tmp_path / "elsewhere") == set()


@pytest.mark.parametrize("planted", [".tf-launch-new", f"{RECORD}.new"])
@pytest.mark.parametrize("by_symlink", [True, False])
def test_a_half_file_that_was_planted_is_not_written_through(sync: Syncing, planted: str, by_symlink: bool) -> None:
    victim = sync.here.parent / "victim"
    victim.write_text("mine")
    sync.there.mkdir(mode=0o700)
    if by_symlink:
        (sync.there / planted).symlink_to(victim)
    else:
        (sync.there / planted).hardlink_to(victim)
    sync.write(a="sent")

    sync()

    assert victim.read_text() == "mine"
    assert sync.files() == {"a": "sent"}


def test_a_directory_there_in_which_others_may_write_is_refused(sync: Syncing) -> None:
    sync.there.mkdir()
    sync.there.chmod(0o1777)
    sync.write(a="sent")

    with pytest.raises(HostError, match=f"gpu: {sync.there}: any user of this host may write in it"):
        sync()
    assert sync.files() == {}


def test_without_its_record_nothing_there_is_touched(sync: Syncing) -> None:
    sync.write(a="1")
    sync()
    (sync.there / RECORD).write_text("{")
    sync.write(a="2")

    assert "a is a file that differs there" in sync.refusal()


def test_a_name_in_the_way_begins_no_line(sync: Syncing) -> None:
    (sync.here / "a\n[launch] done in 1.0 s").write_text("1")
    sync.there.mkdir()
    (sync.there / "a\n[launch] done in 1.0 s").write_text("mine")

    said = sync.refusal()

    assert "a\\n[launch] done in 1.0 s' is a file that differs there\n" in said
    assert "\n[launch]" not in said


def test_many_files_in_the_way_are_counted(sync: Syncing) -> None:
    sync.write(**dict.fromkeys("abcdefg", "1"))
    write(sync.there, **dict.fromkeys("abcdefg", "2"))

    assert "gpu: and 2 more\n" in sync.refusal()


def test_a_path_that_is_no_directory_is_named(sync: Syncing) -> None:
    sync.write(a="1")
    sync.there.write_text("")

    with pytest.raises(HostError, match=f"gpu: {sync.there}: Not a directory; something else stands there"):
        sync()


# ---- what goes wrong
def test_a_file_that_becomes_shorter_while_it_is_sent_is_named(sync: Syncing) -> None:
    (sync.here / "a").write_bytes(bytes(2 * PIECE))

    def shorten(step: type[Command]) -> None:
        if step is BringProjectPiece:
            os.truncate(sync.here / "a", 1)

    with pytest.raises(UsageError, match=f"{sync.here}/a: cannot be sent to the hosts: it became shorter"):
        sync(before_step=shorten)
    assert names_in(sync.there) == {RECORD}


def test_a_file_that_is_gone_when_it_is_sent_is_named(sync: Syncing) -> None:
    sync.write(a="1")

    def remove(step: type[Command]) -> None:
        if step is PrepareProject:
            (sync.here / "a").unlink()

    with pytest.raises(UsageError, match=f"{sync.here}/a: cannot be sent to the hosts: No such file"):
        sync(before_step=remove)


def test_an_agent_that_dies_leaves_no_half_file_that_stays(sync: Syncing) -> None:
    sync.write(a="1")
    sync()
    sync.write(a="22")
    (sync.here / "b").write_bytes(bytes(32 * PIECE))

    def kill(agents: Agents, event: events.Event) -> None:
        was_brought = isinstance(event, events.Answer) and isinstance(event.message, ProjectPieceBrought)
        if was_brought and (sync.there / "a").read_text() == "22":
            agents.ways["gpu"].process.kill()

    with pytest.raises(HostError, match="gpu: "):
        sync(observe=kill)
    assert not (sync.there / "b").exists()
    sync.write(a="333")
    assert sync() == ["gpu: project synced, 2 of 2 files, 4.2 MB"]
    assert sync.files() == {"a": "333", "b": "\0" * 32 * PIECE}


def test_every_host_that_fails_is_told(sync: Syncing) -> None:
    sync.write(a="1")
    write(sync.there, one__a="2", two__a="3")

    with pytest.raises(HostError) as raised:
        sync(hosts=("one", "two"), apart=True)

    assert [f"{name}: {sync.there}/{name}/a is a file" in str(raised.value) for name in ("one", "two")] == [True, True]


def test_hosts_that_share_the_directory_take_turns(sync: Syncing) -> None:
    sync.write(**{f"f{n}": str(n) for n in range(50)})

    said = sync(hosts=("one", "two", "three"))

    synced = [line for line in said if "project synced" in line]
    assert [line.partition(": ")[2] for line in synced] == ["project synced, 50 of 50 files, 90 bytes"]
    assert len(sync.files()) == 50


def test_a_dry_run_tells_what_would_be_sent(sync: Syncing, tmp_path: Path, launch: Callable[..., Launch]) -> None:
    sync.write(a="1", b__c="22", runs__x__run="")
    (tmp_path / "c.yaml").write_text("hosts: [{host: gpu, workdir: ~/p}]\nsync: here\ncommand: [a]\n")
    started = launch("--cluster", "c.yaml", "--dry-run", runs=sync.here / "runs")

    assert started.succeeded()
    said = started.stdout.splitlines()
    assert said[0] == f"project  {sync.here}  2 files, 3 bytes"
    assert "worker 0  on gpu  at 127.0.0.1:<chosen at start>" in said


def test_the_record_lists_what_was_put_there(sync: Syncing) -> None:
    sync.write(a="1", b__c="2")
    (sync.here / "l").symlink_to("a")

    sync()

    record = json.loads((sync.there / RECORD).read_text())
    assert (sorted(record["files"]), record["links"], record["directories"]) == (["a", "b/c"], {"l": "a"}, ["b"])
    assert not record["arriving"]
