"""Programs that set `TF_CONFIG` themselves, run as they are by `launch`."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from support.launching import Launch, cluster_file

WILD = Path(__file__).parent / "scripts" / "wild"
Launched = Callable[..., Launch]
USED_INSTEAD = "tf-launch: the program sets TF_CONFIG itself ({}): launch's is used instead; --keep-tf-config leaves "
USED_INSTEAD += "the program's"


@pytest.fixture
def launched(launched: Launched) -> Launched:
    """With workers that import TensorFlow themselves: that is when its reading of TF_CONFIG is seen to."""
    return partial(launched, fresh=True)


def lines(launch: Launch, task: str) -> list[str]:
    """What a worker of a run that succeeded wrote, without TensorFlow's own words."""
    assert launch.succeeded()
    written = launch.log(task).decode().splitlines()
    return [line for line in written if line.startswith(("tf-launch: the program", *WORDS))]


WORDS = ("replicas", "I am", "learned", "worker", "alone", "child")


def test_a_tutorial_with_a_cluster_of_its_own_trains_on_the_runs(launched: Launched) -> None:
    """It removes TF_CONFIG, imports TensorFlow (and so Keras), and says on all workers that it is worker 0 of three."""
    launch = launched("--workers", "2", "--", "python", WILD / "own_tf_config_assigned.py")
    said = USED_INSTEAD.format("worker 0 of localhost:12345, ...")
    for index in (0, 1):
        expected = [said, "replicas 2 of 2 workers", f"I am worker {index} and {index}", "learned True"]
        assert lines(launch, f"worker-{index}") == expected


def test_a_cluster_from_a_file_gives_way_in_a_loop_without_keras(launched: Launched, tmp_path: Path) -> None:
    file = tmp_path / "cluster.json"
    file.write_text(json.dumps({"worker": ["10.0.0.5:2222", "10.0.0.6:2222"]}))
    launch = launched(
        "--workers", "1", "--no-keras-fix", "--", "python", WILD / "own_tf_config_from_file.py", file, "7"
    )
    assert lines(launch, "worker-0") == [
        USED_INSTEAD.format("worker 7 of 10.0.0.5:2222, ..."),
        "replicas 1 worker 0 weight 2.97",
    ]


def test_putenv_changes_nothing_that_tensorflow_reads(launched: Launched) -> None:
    """Else it would wait for another worker."""
    launch = launched("--workers", "1", "--", "python", WILD / "own_tf_config_putenv.py")
    assert lines(launch, "worker-0") == ["replicas 1 sum 1.0"]


def test_a_cluster_made_from_the_runs_and_a_removal_stay(launched: Launched, tmp_path: Path) -> None:
    cluster = cluster_file(tmp_path, [{"host": "localhost", "tasks": {"chief": 1, "worker": 1}}], {"start": "120s"}, {})
    launch = launched(*cluster, "--", "python", WILD / "own_tf_config_derived.py")
    assert lines(launch, "chief-0") == ["worker 0 of 2 sum 2.0", "alone: {} False"]
    assert lines(launch, "worker-0") == ["worker 1 of 2 sum 2.0", "alone: {} False"]


def test_children_of_a_program_keep_the_cluster_that_it_gives_them(launched: Launched) -> None:
    launch = launched("--workers", "1", "--", "python", WILD / "own_tf_config_children.py")
    assert sorted(lines(launch, "worker-0")) == [f"child {n} sum 2.0 in its own cluster True" for n in (0, 1)]


def test_with_the_option_a_programs_own_cluster_stays(launched: Launched, tmp_path: Path) -> None:
    """A cluster of one, which it is itself: it trains alone."""
    file = tmp_path / "cluster.json"
    file.write_text(json.dumps({"worker": ["localhost:0"]}))
    options = ("--workers", "1", "--keep-tf-config")
    launch = launched(*options, "--", "python", WILD / "own_tf_config_from_file.py", file)
    assert lines(launch, "worker-0") == ["replicas 1 worker 0 weight 2.97"]
