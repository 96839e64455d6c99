"""Which files a restart needs, from where, and which of them a host lacks: decided from lists of files alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from launcher.gathering.gathered import Batch
from launcher.gathering.remote_files import RemoteFile
from launcher.gathering.state_file import naming, newest_named, portable
from launcher.restoring.needs import LARGEST_OTHER, MOST_OTHERS, is_newer_here, lacking, needs_of
from launcher.restoring.parcels import Parcel, brought_line, parcels, wanted_on

SHARD = ".data-00000-of-00001"


def files(**mtimes: int) -> list[RemoteFile]:
    """Files of one byte each."""
    return [RemoteFile(path, 1, mtime) for path, mtime in mtimes.items()]


def tf(prefix: str, mtime: int) -> dict[str, int]:
    """A complete checkpoint of TensorFlow's."""
    return {f"{prefix}{SHARD}": mtime, f"{prefix}.index": mtime}


def needed(found: dict[str, int], *named: str) -> list[str]:
    """By the name that a person calls it."""
    needs = needs_of(files(**found), named)
    return [unit.name for unit in (*needs.checkpoints, *needs.others)] + [file.path for file in needs.state_files]


@pytest.mark.parametrize(
    ("found", "names"),
    [
        ({}, []),
        ({**tf("ckpt/step-9", 1), **tf("ckpt/step-10", 2), "ckpt/checkpoint": 3}, ["ckpt/step-10", "ckpt/checkpoint"]),
        ({**tf("cp-0002.ckpt", 2), **tf("cp-0001.ckpt", 1)}, ["cp-0002.ckpt"]),
        ({**tf("a/ckpt-1", 1), **tf("b/ckpt-2", 2)}, ["a/ckpt-1", "b/ckpt-2"]),
        ({**tf("last-5", 5), **tf("best-3", 3), **tf("best-1", 1)}, ["last-5", "best-3"]),
        # a save that was cut short: of another number, and of the same one
        ({**tf("step-9", 1), f"step-10{SHARD}": 2}, ["step-9"]),
        ({**tf("step-9", 1), "step-10.data-00000-of-00002": 2, "step-10.index": 3}, ["step-9"]),
        ({f"cp{SHARD}": 9, "cp.index": 5}, []),
        # Keras
        ({"e-1-0.52.keras": 1, "e-2-0.41.keras": 2, "best.weights.h5": 1}, ["e-2-0.41.keras", "best.weights.h5"]),
        (
            {"backup/latest.weights.h5": 2, "backup/training_metadata.json": 3, "backup/latest.weights.h5.bkp": 1},
            ["backup/latest.weights.h5", "backup/latest.weights.h5.bkp", "backup/training_metadata.json"],
        ),
        ({"w.weights.json": 3, "w_00000.weights.h5": 1, "w_00001.weights.h5": 2}, ["w.weights.json"]),
        # what is one as a whole directory
        (
            {
                "m/3/saved_model.pb": 3,
                "m/3/variables/variables.index": 3,
                f"m/3/variables/variables{SHARD}": 3,
                "m/2/saved_model.pb": 2,
            },
            ["m/3"],
        ),
        ({"o/7/_CHECKPOINT_METADATA": 7, "o/7/state/d/1": 7, "o/6/_CHECKPOINT_METADATA": 6}, ["o/7"]),
        # other files: one's own notes, but no logs, caches or temporary names
        ({"state-1.npz": 1, "state-2.npz": 2}, ["state-2.npz", "state-1.npz"]),
        ({"tensorboard/events.out.tfevents.1.host": 1, "cache/x": 1, "a.tmp": 1, "workertemp_1/x": 1}, []),
    ],
)
def test_what_a_restart_needs(found: dict[str, int], names: list[str]) -> None:
    assert needed(found) == names


def test_what_is_named_is_needed_beside_what_is_newest() -> None:
    found = {**tf("step-9", 1), **tf("step-10", 2)}

    assert needed(found, "step-9") == ["step-9", "step-10"]
    assert needed(found, "step-10") == ["step-10"]
    assert needed(found, "step-11") == ["step-10"]


def test_no_large_file_that_nobody_knows_is_needed() -> None:
    many = [RemoteFile(f"{number}.npz", LARGEST_OTHER, number) for number in range(9)]
    needs = needs_of([RemoteFile("predictions.npy", LARGEST_OTHER + 1, 1), *many])

    assert [unit.name for unit in needs.others] == ["8.npz", "7.npz", "6.npz", "5.npz"]
    assert sum(unit.size for unit in needs.others) == MOST_OTHERS
    assert needs_of([RemoteFile("huge.keras", 1 << 40, 1)]).checkpoints[0].name == "huge.keras"


@pytest.mark.parametrize(
    ("chief", "here", "from_here"),
    [
        ({}, {}, False),
        (tf("step-5", 5), {}, False),
        (tf("step-5", 5), tf("step-5", 5), False),
        (tf("step-6", 6), tf("step-5", 5), False),
        ({}, tf("step-5", 5), True),
        (tf("step-4", 4), tf("step-5", 5), True),
        ({f"cp{SHARD}": 9, "cp.index": 5}, tf("cp", 5), True),  # it was about to be overwritten
        ({"notes.txt": 9}, tf("step-5", 5), True),
        ({"notes.txt": 9}, {"notes.txt": 8}, False),
        ({"notes.txt": 7}, {"notes.txt": 8}, True),
    ],
)
def test_the_newest_complete_checkpoint_is_started_from(
    chief: dict[str, int], here: dict[str, int], from_here: bool
) -> None:
    assert is_newer_here(needs_of(files(**chief)), needs_of(files(**here)), intact=False) is from_here


def test_what_an_intact_host_has_no_more_was_removed_on_purpose() -> None:
    older, newer_one, none = (needs_of(files(**found)) for found in (tf("step-5", 5), tf("step-9", 9), {}))

    assert not is_newer_here(older, newer_one, intact=True)
    assert is_newer_here(none, newer_one, intact=True)  # it was about to be replaced by itself


def test_a_host_lacks_what_differs_in_size_or_time() -> None:
    needs = files(same=1, longer=1, newer=2, missing=1)
    there = {"same": RemoteFile("same", 1, 1), "longer": RemoteFile("longer", 2, 1), "newer": RemoteFile("newer", 1, 1)}

    assert [file.path for file in lacking(needs, there)] == ["longer", "newer", "missing"]


def test_a_hosts_own_notes_are_left_to_it() -> None:
    every = [
        Parcel(RemoteFile(path, 1, 9), b"", Batch(path, (), is_checkpoint=path == "checkpoint"))
        for path in ("checkpoint", "own.json", "brought.json", "missing.json")
    ]
    there = {path: RemoteFile(path, 1, 5) for path in ("checkpoint", "own.json", "brought.json")}
    wanted = wanted_on(there, every, lambda file: file.path == "brought.json")

    assert [each.file.path for each in wanted] == ["checkpoint", "brought.json", "missing.json"]


def test_checkpoints_are_put_in_place_before_what_names_them(tmp_path: Path) -> None:
    (tmp_path / "checkpoint").write_bytes(b'model_checkpoint_path: "step-5"\n')
    found = {"checkpoint": 9, "note.json": 1, **tf("step-5", 5)}
    packed = parcels(tmp_path, needs_of(files(**found)), newest=False)

    assert [each.file.path for each in packed] == ["note.json", f"step-5{SHARD}", "step-5.index", "checkpoint"]
    assert brought_line("gpu-a", packed) == "gpu-a: brought step-5 (35 B)"
    assert brought_line("gpu-a", packed[:1]) == "gpu-a: brought 1 file of the chief's (1 B)"


def test_of_several_directories_each_gets_its_own_name(tmp_path: Path) -> None:
    found = {**tf("a/step-5", 5), **tf("b/best-2", 2), **tf("b/last-3", 3)}
    packed = {each.file.path: each.content for each in parcels(tmp_path, needs_of(files(**found)), newest=True)}

    assert packed["a/checkpoint"] == b'model_checkpoint_path: "step-5"\nall_model_checkpoint_paths: "step-5"\n'
    assert packed["b/checkpoint"] == b'model_checkpoint_path: "last-3"\nall_model_checkpoint_paths: "last-3"\n'


# ---- the file `checkpoint`
@pytest.mark.parametrize(
    ("name", "portable_name"),
    [
        ("step-5", "step-5"),
        ("/home/a/run/ckpt/step-5", "step-5"),
        ("/home/a/run/ckpt/deep/step-5", "deep/step-5"),
        ("/elsewhere/step-5", "/elsewhere/step-5"),
        ("/home/a/run/ckpt2/step-5", "/home/a/run/ckpt2/step-5"),
    ],
)
def test_absolute_names_are_made_relative(name: str, portable_name: str) -> None:
    state = (
        'model_checkpoint_path: "{0}"\nall_model_checkpoint_paths: "x"\nall_model_checkpoint_paths: "{0}"\nlast: 1.5\n'
    )

    assert portable(state.format(name).encode(), "/home/a/run/ckpt") == state.format(portable_name).encode()


def test_a_directory_of_any_name_is_found_in_the_text() -> None:
    written = rb'model_checkpoint_path: "/h/\303\274 \"q\"/step-\342\202\254"'

    assert portable(written, '/h/ü "q"') == rb'model_checkpoint_path: "step-\342\202\254"'
    assert newest_named(portable(written, '/h/ü "q"'), "ckpt", "/h") == "ckpt/step-€"


def test_another_newest_is_named() -> None:
    state = b'model_checkpoint_path: "step-5"\nall_model_checkpoint_paths: "step-5"\nlast: 1.5\n'

    assert naming(state, "step-6") == state.replace(b'path: "step-5"', b'path: "step-6"')
    assert newest_named(naming(b"", 'ü"'), "", "/h") == 'ü"'
