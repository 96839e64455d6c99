"""Whatever a host lists of its files: what is taken lies in the directory, each file once, or the list is refused."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launcher.gathering import remote_files
from launcher.gathering.checkpoints import checkpoints_among, newest_step_among
from launcher.gathering.remote_files import (
    LARGEST_SIZE,
    LONGEST_NAME,
    LONGEST_PATH,
    Listing,
    RefusedError,
    RemoteFile,
    is_time,
)
from launcher.gathering.report import left_line
from launcher.gathering.selection import outdated, select
from launcher.gathering.state_file import newest_named, portable
from launcher.on_host.agent.messages import FilesListed
from launcher.restoring.needs import is_newer_here, needs_of
from launcher.run_directory.state import RunHost

HOST = RunHost("gpu-a", ("worker-0",), "/run", "/run/output")

PART = st.sampled_from(
    ["a", "b", "ckpt", "step-5", "..", ".", "", "checkpoint", "n" * 255, "n" * 256, "\ud800", "\udcff", "\0", "\n"]
)
ENDING = st.sampled_from(
    [
        *["", "", "\n", ".index", ".keras"],
        *[".data-00000-of-00001", ".data-00001-of-00002", ".data-00002-of-00002", f".data-00000-of-{'9' * 20}"],
    ]
)
PATH = st.builds(lambda parts, ending: "/".join(parts) + ending, st.lists(PART, max_size=4), ENDING) | st.text(
    max_size=20
)
NUMBER = st.integers(-(2**80), 2**80) | st.integers(0, 50) | st.just(10**5000)
FILE: st.SearchStrategy[Any] = st.tuples(PATH, NUMBER, NUMBER)
LISTED = st.builds(
    FilesListed,
    number=st.just(1),
    files=st.lists(FILE, max_size=12),
    links=st.lists(PATH, max_size=2),
    unreadable=st.lists(st.tuples(PATH, st.text(max_size=300)), max_size=2),
)
NAMES = st.sampled_from([["."], ["ckpt"], ["a/b", "step-5"]])


def listed(parts: list[Any], clock: Any, names: list[str]) -> Listing | None:
    """The list that a host tells in these parts; None: it is refused."""
    found = Listing()
    try:
        for part in parts:
            found.add(part, names)
        found.end(clock)
    except RefusedError:
        return None
    return found


def see_that_all_is_well(found: Listing, names: list[str], known: Mapping[str, RemoteFile]) -> None:
    for path, file in found.files.items():
        assert path == file.path
        assert 0 <= file.size <= LARGEST_SIZE
        assert is_time(file.mtime_ns)
        assert len(path.encode("utf-8", "surrogateescape")) <= LONGEST_PATH
        assert Path("/top", path).parts == ("/", "top", *path.split("/"))
        assert ".." not in path.split("/")
        assert max(len(part.encode("utf-8", "surrogateescape")) for part in path.split("/")) <= LONGEST_NAME
        assert not any(other.startswith(f"{path}/") for other in found.files)
    for final in (False, True):
        selection = select(found, lambda _: False, known, names, final=final)
        chosen = [file for batch in selection.wanted for file in batch.files]
        assert len(chosen) == len(set(chosen))
        assert set(chosen) <= set(found.files.values())
        assert not {"\n", "\x1b", "\x9b"} & set(left_line(HOST, selection.left))
    assert set(outdated(found, lambda _: True, known)) <= known.keys() - found.files.keys()
    needs = needs_of(found.files.values())
    assert len(needs.files) == len(set(needs.files))
    assert not is_newer_here(needs, needs, intact=False)


@given(st.lists(LISTED, max_size=3), st.integers(-(2**70), 2**70), NAMES, st.sets(PATH, max_size=4))
def test_what_is_chosen_lies_in_the_directory_and_is_chosen_once(
    parts: list[Any], clock: int, names: list[str], before: set[str]
) -> None:
    known = {path: RemoteFile(path, 1, 1) for path in before}
    found = listed(parts, clock, names)
    if found is not None:
        see_that_all_is_well(found, names, known)


@given(st.lists(LISTED, max_size=3))
def test_the_newest_step_of_any_list_is_a_number_or_none(parts: list[Any]) -> None:
    found = listed(parts, 0, ["."])
    step = newest_step_among(found.files.values()) if found is not None else None

    assert step is None or 0 <= step < 10**18


@given(st.lists(st.tuples(PATH, st.integers(0, 9), st.integers(0, 9))))
def test_a_checkpoint_is_made_of_its_own_files(files: list[tuple[str, int, int]]) -> None:
    for prefix, each in checkpoints_among(RemoteFile(*file) for file in files).items():
        assert all(file.path.startswith(f"{prefix}.") for file in each.files)


@given(st.binary(max_size=200) | st.text('mode_chckpintah: "\\\n01/.', max_size=200).map(str.encode))
def test_any_state_file_is_read(content: bytes) -> None:
    named = newest_named(content, "ckpt", "/root")

    assert named is None or not named.startswith(("/", ".."))
    portable(content, "/root/ckpt")


# ---- how much is taken
def test_a_list_of_too_many_files_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_files, "MOST_FILES", 10)
    part = FilesListed(1, [("again", 1, 1)] * 6, [], [])
    found = Listing()
    found.add(part, ["."])
    with pytest.raises(RefusedError, match="it lists more than 10 files"):
        found.add(part, ["."])


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    "content", [b"\n" * (1 << 20), b" \n" * (1 << 19), b"model_checkpoint_path:  " * 40_000, b"\\" * (1 << 20)]
)
def test_a_state_file_is_read_in_linear_time(content: bytes) -> None:
    assert newest_named(content, "", "/") is None
    assert portable(content, "/") == content


@pytest.mark.timeout(10)
@pytest.mark.parametrize(
    "unit", [".data-11111", ".orbax-checkpoint-tmp", "_temp/part-1-of-1.", "1", "a/", "-1", "cache."]
)
def test_a_name_as_long_as_it_can_be_is_judged_in_linear_time(unit: str) -> None:
    name = "/".join([(unit * LONGEST_NAME)[:LONGEST_NAME]] * 15)
    files = [(f"{n}/{name}", 1, 1) for n in range(100)]
    found = listed([FilesListed(1, files, [], [])], 0, ["."])

    assert found is not None
    assert len(found.files) == len(files)
    see_that_all_is_well(found, ["."], {})
