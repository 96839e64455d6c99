"""What is gathered, in which order, and what goes: decided from lists of files alone."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from launcher.gathering.checkpoints import checkpoints_among, newest_step_among
from launcher.gathering.file_kinds import grows, is_cache, is_temporary
from launcher.gathering.gathered import Gathered
from launcher.gathering.remote_files import Listing, RemoteFile, is_below, plain_names
from launcher.gathering.selection import LARGE, outdated, select
from launcher.gathering.state_file import newest_named
from launcher.on_host.agent.messages import FilesListed

S = 1_000_000_000
NOW = 1000 * S
SHARD = ".data-00000-of-00001"


def listing(*files: tuple[str, int], now: int = NOW) -> Listing:
    """Files of one byte, each with its time in seconds."""
    return Listing({path: RemoteFile(path, 1, mtime * S) for path, mtime in files}, clock_ns=now)


def known(found: Listing, *paths: str) -> dict[str, RemoteFile]:
    return {path: found.files[path] for path in paths}


def chosen(found: Listing, here: Mapping[str, RemoteFile] | None = None, *, final: bool = False) -> Gathered:
    here = here or {}

    def is_here(file: RemoteFile) -> bool:
        return file.path in here and here[file.path].mtime_ns == file.mtime_ns

    return select(found, is_here, here, final=final)


def names(selection: Gathered) -> list[str]:
    return [batch.name for batch in selection.wanted]


# ---- names
@pytest.mark.parametrize(
    "path",
    [
        "checkpoints/step-2_temp/part-00000-of-00001.index",
        "checkpoints/step-2_temp/part-00000-of-00001.data-00000-of-00001",
        "checkpoints/step-2_temp/part-00000-of-00001.data-00000-of-00001.tempstate14476984544945791236",
        "export/saved_model/variables/variables_temp/part-00000-of-00001.data-00000-of-00001",
        "checkpoints/checkpoint.tmpaa4ac8f20d8141ffbf68e9a628ffe0f9",
        "export/saved_model.pb.tmpf2dc6b47a83d49dbafbc5858250c778d",
        "checkpoints/workertemp_1/step-2.index",
        "workertemp_12/a/b",
        "results.csv.tmp",
        "notes.txt~",
        ".notes.txt.swp",
        "a/.nfs000000000123abcd00000001",
        "checkpoints/3.orbax-checkpoint-tmp-17/state/manifest",
        "new\nline/workertemp_1/x",
    ],
)
def test_steps_on_the_way_to_a_file_are_left_out(path: str) -> None:
    assert is_temporary(path)
    assert chosen(listing((path, 1)), final=True).wanted == []


@pytest.mark.parametrize(
    "path",
    [
        "cache/train.index",
        ".cache/x",
        "__pycache__/train.cpython-311.pyc",
        "train_cache_0.data-00000-of-00001",
        "train-cache.index",
        "x.lockfile",
    ],
)
def test_a_cache_stays_unless_it_is_named(path: str) -> None:
    top = path.partition("/")[0]

    assert is_cache(path)
    assert chosen(listing((path, 1)), final=True).stays == [RemoteFile(path, 1, S)]
    assert is_cache(f"checkpoints/{path}", ["checkpoints"])
    assert not is_cache(path, [top])
    assert not is_cache(path, [".", top])


@pytest.mark.parametrize("path", ["cached.npz", "my_cache/x", "cache.json", "lockfile", "cache"])
def test_what_is_only_called_like_a_cache_is_taken(path: str) -> None:
    assert not is_cache(path)


@pytest.mark.parametrize(
    ("path", "size", "comes"),
    [
        ("buffer.npy", LARGE + 1, False),
        ("buffer.npy", LARGE, True),
        ("best.keras", LARGE + 1, True),
        ("events.out.tfevents.1.host", LARGE + 1, True),
    ],
)
def test_something_large_that_is_written_again_comes_again_at_the_end(path: str, size: int, comes: bool) -> None:
    found = Listing({path: RemoteFile(path, size, 9 * S)}, clock_ns=NOW)
    here = {path: RemoteFile(path, size - 1, S)}

    assert [bool(chosen(found, {}).wanted), bool(chosen(found, here).wanted)] == [True, comes]
    assert chosen(found, here, final=True).wanted


def test_what_was_not_asked_for_stays() -> None:
    found = listing(("checkpoints/a", 1), ("logs/b", 1), ("c.tmp", 1))
    found.left = {"link": "it is a symbolic link", "logs/link": "it is a symbolic link", "../up": "not asked for"}
    selection = select(found, lambda _: False, {}, ["checkpoints", "link"], final=True)

    assert names(selection) == ["checkpoints/a"]
    assert [file.path for file in selection.stays] == ["logs/b", "c.tmp"]
    assert selection.left == {"link": "it is a symbolic link", "../up": "not asked for"}


@pytest.mark.parametrize(
    "path",
    [
        "checkpoints/step-2.index",
        "checkpoints/step-2.data-00000-of-00001",
        "my_temp/results.csv",
        "part-00000-of-00001.index",
        "workertemp_notes/x",
        "tmp/a",
        "a.tmpl",
        "tensorboard/events.out.tfevents.1795252587.vm.6234.0.v2",
    ],
)
def test_a_name_that_only_looks_like_it_is_taken(path: str) -> None:
    assert not is_temporary(path)


def test_only_event_files_grow_where_they_are() -> None:
    assert grows("tensorboard/train/events.out.tfevents.1795252587.vm.6234.0.v2")
    assert not grows("events.out.tfevents.d/log.csv")
    assert not grows("log.csv")


@pytest.mark.parametrize("path", ["/a/b", "a/../b", "../a", "a//b", "a/./b", "a/", "", "b", "ab", "a/b\0c", "a/.."])
def test_a_path_that_was_not_asked_for_is_not_taken_from_a_host(path: str) -> None:
    found = Listing()
    found.add(FilesListed(1, [(path, 1, 1)], [], []), ["a", "c/d"])

    assert not is_below(path, ["a", "c/d"])
    assert found.files == {}
    assert found.left == {path: "the host names a file that was not asked for"}


@pytest.mark.parametrize("path", ["a", "a/b", "c/d", "c/d/e", "a/new\nline", "a/...", "a/\udcff"])
def test_a_path_that_was_asked_for_is_taken(path: str) -> None:
    assert is_below(path, ["a", "c/d"])


def test_names_are_compared_without_what_means_nothing() -> None:
    assert plain_names(["./a//b/", "a/b", "c"]) == ("a/b", "c")


# ---- checkpoints
def test_a_checkpoint_is_its_index_and_all_its_shards() -> None:
    found = checkpoints_among(
        listing(("d/s-1.data-00001-of-00002", 1), ("d/s-1.index", 2), ("d/s-1.data-00000-of-00002", 1)).files.values()
    )["d/s-1"]

    assert not found.missing
    assert [file.path for file in found.files] == [
        "d/s-1.data-00000-of-00002",
        "d/s-1.data-00001-of-00002",
        "d/s-1.index",
    ]


@pytest.mark.parametrize(
    ("files", "missing"),
    [
        ([("s.index", 1), ("s.data-00000-of-00002", 1)], "1 of its data files are not there"),
        ([("s.index", 1), ("s.data-00001-of-00002", 1)], "1 of its data files are not there"),
        ([("s.data-00000-of-00001", 1)], "its index is not there"),
        (
            [("s.index", 3), ("s.data-00000-of-00001", 1), ("s.data-00000-of-00002", 2)],
            "1 of its data files are not there",
        ),
    ],
)
def test_a_checkpoint_without_some_file_is_not_complete(files: list[tuple[str, int]], missing: str) -> None:
    assert checkpoints_among(listing(*files).files.values())["s"].missing == missing


def test_shards_of_an_overwritten_checkpoint_do_not_count() -> None:
    files = [("s.index", 3), ("s.data-00000-of-00001", 2), ("s.data-00000-of-00002", 1), ("s.data-00001-of-00002", 1)]
    found = checkpoints_among(listing(*files).files.values())["s"]

    assert not found.missing
    assert [file.path for file in found.files] == ["s.data-00000-of-00001", "s.index"]


@pytest.mark.parametrize(
    ("text", "prefix"),
    [
        (b'model_checkpoint_path: "step-2"\nall_model_checkpoint_paths: "step-1"\n', "checkpoints/step-2"),
        (b'all_model_checkpoint_paths: "step-1"\n  model_checkpoint_path : "step-2"', "checkpoints/step-2"),
        (b'model_checkpoint_path: "deep/step-2"', "checkpoints/deep/step-2"),
        (b'model_checkpoint_path: "/out put/checkpoints/step-2"', "checkpoints/step-2"),
        (b'model_checkpoint_path: "\\303\\274\\"\\\\"', 'checkpoints/ü"\\'),
        (b'model_checkpoint_path: "/elsewhere/step-2"', None),
        (b'model_checkpoint_path: "/out put/../step-2"', None),
        (b'model_checkpoint_path: "../step-2"', None),
        (b'all_model_checkpoint_paths: "step-1"', None),
        (b"", None),
        (b"\xff\xfe model", None),
    ],
)
def test_the_newest_checkpoint_is_what_the_state_file_names(text: bytes, prefix: str | None) -> None:
    assert newest_named(text, "checkpoints", "/out put") == prefix


# ---- the selection
def test_the_newest_checkpoint_comes_first_and_the_state_file_after_all() -> None:
    found = listing(
        ("checkpoints/checkpoint", 22),
        ("checkpoints/s-1.index", 11),
        (f"checkpoints/s-1{SHARD}", 10),
        ("checkpoints/s-2.index", 21),
        (f"checkpoints/s-2{SHARD}", 20),
        ("export/old.keras", 5),
        ("export/model.keras", 30),
    )

    assert names(chosen(found)) == [
        "checkpoints/s-2",
        "checkpoints/s-1",
        "checkpoints/checkpoint",
        "export/model.keras",
        "export/old.keras",
    ]


def test_what_is_here_is_not_wanted() -> None:
    found = listing(("s.index", 2), (f"s{SHARD}", 1), ("a", 1), ("b", 1))

    assert names(chosen(found, known(found, "s.index", f"s{SHARD}", "a"))) == ["b"]
    assert names(chosen(found, known(found, "s.index", "a", "b"))) == ["s"]


@pytest.mark.parametrize(
    ("files", "reason"),
    [
        ([(f"s{SHARD}", 1)], "its index is not there"),
        ([("s.index", 2), ("s.data-00000-of-00003", 1)], "2 of its data files are not there"),
    ],
)
@pytest.mark.parametrize("final", [False, True])
def test_a_half_written_checkpoint_is_not_taken(files: list[tuple[str, int]], reason: str, final: bool) -> None:
    selection = chosen(listing(*files), final=final)

    assert selection.wanted == []
    assert selection.left == {"s": reason}


@pytest.mark.parametrize("final", [False, True])
def test_a_checkpoint_that_is_being_overwritten_does_not_replace_a_good_one(final: bool) -> None:
    before = listing(("s.index", 2), (f"s{SHARD}", 1))
    now = listing(("s.index", 2), (f"s{SHARD}", 500))

    selection = chosen(now, known(before, *before.files), final=final)
    assert selection.wanted == []
    assert selection.left == {"s": "its index is older than its data"}


def test_a_copied_checkpoint_is_taken_once_nothing_writes_to_it() -> None:
    assert names(chosen(listing(("s.index", 998), (f"s{SHARD}", 999)))) == []
    assert names(chosen(listing(("s.index", 900), (f"s{SHARD}", 901)))) == ["s"]
    assert names(chosen(listing(("s.index", 998), (f"s{SHARD}", 999)), final=True)) == ["s"]


def test_a_file_is_taken_once_nothing_writes_to_it() -> None:
    found = listing(("fresh.keras", 999), ("future", 2000), ("rested", 990), ("checkpoint", 1000))
    growing = "events.out.tfevents.1.host.1.0.v2"
    found.files[growing] = RemoteFile(growing, 1, NOW)

    assert names(chosen(found)) == ["checkpoint", "future", growing, "rested"]
    assert "fresh.keras" in names(chosen(found, final=True))


@pytest.mark.parametrize("path", ["vectors.index", "split.data-00002-of-00002"])
def test_what_is_only_called_like_a_part_of_a_checkpoint_is_a_file_like_any_other(path: str) -> None:
    assert names(chosen(listing((path, 1)))) == [path]


def test_what_cannot_be_sent_is_told() -> None:
    found = Listing(left={"link": "it is a symbolic link"})

    assert chosen(found, final=True).left == {"link": "it is a symbolic link"}


# ---- what goes
def gone(before: Listing, now: Listing, *here: str) -> list[str]:
    """What of `before` is removed when the chief has `now`, of which `here` has been gathered."""
    entries = {**known(before, *before.files), **known(now, *here)}

    def is_here(file: RemoteFile) -> bool:
        return file.path in here

    return list(outdated(now, is_here, entries))


ONE = (("d/s-1.index", 2), (f"d/s-1{SHARD}", 1))
TWO = (("d/s-2.index", 12), (f"d/s-2{SHARD}", 11))


@pytest.mark.parametrize(
    ("now", "here", "removed"),
    [
        (TWO, ["d/s-2.index", f"d/s-2{SHARD}"], ["d/s-1.index", "d/s-1.data-00000-of-00001"]),
        (TWO, ["d/s-2.index"], []),
        (TWO, [], []),
        ((), [], []),
        ((*TWO, ONE[1]), ["d/s-2.index", f"d/s-2{SHARD}"], []),
        ((("d/notes", 20),), ["d/notes"], []),
        ((("e/s-2.index", 12), (f"e/s-2{SHARD}", 11)), ["e/s-2.index", f"e/s-2{SHARD}"], []),
        ((("d/s-0.index", 1), (f"d/s-0{SHARD}", 0)), ["d/s-0.index", f"d/s-0{SHARD}"], []),
    ],
    ids=[
        "rotated",
        "newer one not whole here",
        "newer one not here",
        "all gone: a new disk, maybe",
        "being deleted",
        "no newer checkpoint",
        "newer one elsewhere",
        "what is left is older",
    ],
)
def test_a_checkpoint_goes_once_a_newer_one_is_here(
    now: tuple[tuple[str, int], ...], here: list[str], removed: list[str]
) -> None:
    assert gone(listing(*ONE), listing(*now), *here) == removed


def test_of_every_checkpoint_the_index_goes_first() -> None:
    before = listing(*reversed(ONE), ("d/s-0.index", 1), (f"d/s-0{SHARD}", 0))
    removed = gone(before, listing(*TWO), "d/s-2.index", f"d/s-2{SHARD}")

    assert sorted(removed[:2]) == ["d/s-0.index", "d/s-1.index"]
    assert sorted(removed[2:]) == [f"d/s-0{SHARD}", f"d/s-1{SHARD}"]


def test_a_file_goes_once_a_newer_one_is_beside_it() -> None:
    before = listing(("export/v1.keras", 1), ("tensorboard/a", 1))

    assert gone(before, listing(("export/v2.keras", 2)), "export/v2.keras") == ["export/v1.keras"]
    assert gone(before, listing(("export/v2.keras", 2))) == []


# ---- how far it has come
def test_the_newest_step_is_that_of_a_complete_checkpoint() -> None:
    paths = ["d/s-10.index", f"d/s-10{SHARD}", f"d/s-30{SHARD}", "d/s-20.index", f"d/s-20{SHARD}", "d/s.index"]

    assert newest_step_among(RemoteFile(path, 1, 1) for path in paths) == 20


def test_without_a_checkpoint_there_is_no_step() -> None:
    assert newest_step_among([]) is None
