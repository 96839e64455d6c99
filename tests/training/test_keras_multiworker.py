"""Unmodified Keras 3 programs with several workers and the fix that the bootstrap brings, beside one process alone.

`scripts/keras_ways` has the ways of using Keras. Each runs with some numbers of workers, and arrives at the numbers of
one process: without a strategy, or as many replicas under MirroredStrategy where the mathematics depends on them.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from support.keras_runs import SCRIPTS, Arrived, Way, World, numbers, run, ways
from support.last_line import last_line

REPOSITORY = Path(__file__).resolve().parents[2]
FIX = "training.keras_fix"
OURS = {"PYTHONPATH": str(REPOSITORY)}
TOLERANCE = 1e-4
WORLDS = {"1": World(1), "1x2": World(1, devices=2), "2": World(2), "3": World(3), "2x2": World(2, devices=2)}
OLDEST_KERAS = Path(__file__).with_name("oldest-keras.txt")
ALL = os.environ.get("KERAS_WAYS") == "all"
WAYS = {name: way.everywhere() if ALL else way for name, way in ways().items() if ALL or way.worlds != "2"}
"""Those that are not for two workers alone, which have something of everything; all of them take an hour."""
RUNS = [pytest.param(name, world, id=f"{name}-{world}") for name, way in WAYS.items() for world in way.worlds.split()]

SAVED = {"2": ["save_as_keras_file", "save_weights", "export"], "2x2": ["save_as_keras_file"]}
# With two workers these run on the oldest Keras.
REPRESENTATIVE = [name for name, way in ways().items() if {"3", "2x2"} & set(way.worlds.split())]
BY_REPLICAS = [name for name in REPRESENTATIVE if ways()[name].by_replicas]

pytestmark = pytest.mark.timeout(1800)  # a fixture runs all ways of a world, whichever test asks first

Arrive = Callable[..., Arrived]
Read = Callable[[str], tuple[Arrived, dict[str, Any]]]


class Runs:
    """What all ways of a world come to; each world runs once, when a test first asks for it."""

    def __init__(self, gang: Callable[..., Any], tmp_path_factory: pytest.TempPathFactory) -> None:
        self.gang = gang
        self.places = tmp_path_factory
        self.arrived: dict[Any, Arrived] = {}

    def __call__(self, world: World, names: Sequence[str] = (), **more: str) -> Arrived:
        """Run the ways that are for this world, or those named; `more` is for `keras_runs.run`."""
        key = world, tuple(names), tuple(more.items())
        if key not in self.arrived:
            place = self.places.mktemp("ways")
            self.arrived[key] = run(self.gang, place, world, names or ways_in(world), **more)
        return self.arrived[key]


@pytest.fixture(scope="module")
def arrive(gang: Callable[..., Any], tmp_path_factory: pytest.TempPathFactory) -> Arrive:
    return Runs(gang, tmp_path_factory)


@pytest.fixture(scope="module")
def read(gang: Callable[..., Any], arrive: Arrive) -> Read:
    """What the chief's files of a world answer in a new process, beside what the workers came to."""

    def answers(world: str) -> tuple[Arrived, dict[str, Any]]:
        saved = arrive(WORLDS[world])
        if not (saved.directory / "read.json").exists():
            env = {"PYTHONPATH": str(SCRIPTS)}
            [ended] = gang(0, ["python", "-m", "keras_ways.read", str(saved.directory)], env=env)
            assert ended.exit_code == 0, ended.output[-4000:]
        return saved, json.loads((saved.directory / "read.json").read_text())

    return answers


def ways_in(world: World) -> list[str]:
    """The ways that run in a world, as one of their own, or as the reference of one."""
    return [name for name, way in WAYS.items() if world in worlds_of(way)]


def worlds_of(way: Way) -> set[World]:
    """Where a way runs, with its references."""
    own = {WORLDS[key] for key in way.worlds.split()}
    return own | {way.reference(world) for world in own}


@pytest.fixture(scope="session")
def oldest_keras(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The directory of the oldest Keras that works with the pinned TensorFlow."""
    directory = tmp_path_factory.mktemp("oldest-keras")
    pip = [sys.executable, "-I", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input"]
    subprocess.run([*pip, "--no-deps", "--require-hashes", "--target", directory, "-r", OLDEST_KERAS], check=True)
    return str(directory)


def differences(found: dict[str, Any], expected: dict[str, Any], tolerance: float) -> list[str]:
    """One line for each place where two outcomes are apart; empty: they agree."""
    first, second = numbers(found), numbers(expected)
    return [
        f"{place}: {first.get(place, 'nothing')} where {second.get(place, 'nothing')} was expected"
        for place in sorted(first.keys() | second.keys())
        if not (place in first and place in second and close(first[place], second[place], tolerance))
    ]


def close(found: Any, expected: Any, tolerance: float) -> bool:
    """Whether two leaves agree; numbers within the tolerance, everything else exactly."""
    if isinstance(found, float) and isinstance(expected, float):
        return bool(found == pytest.approx(expected, abs=tolerance, rel=0 if tolerance == 0 else 1e-6, nan_ok=True))
    return bool(found == expected)


def shared_by_all(outcome: dict[str, Any]) -> dict[str, Any]:
    """Without what only the chief has."""
    return {key: value for key, value in outcome.items() if key != "on_chief"}


def predicted(outcome: dict[str, Any]) -> Any:
    """What the model in training answered when it was saved."""
    return outcome.get("by_world", outcome)["predict"]


def assert_close(found: Arrived, reference: Arrived, way: str, tolerance: float = TOLERANCE) -> None:
    """The chief's outcome of a way is that of the one process."""
    apart = differences(found.outcomes(way)[0], reference.outcomes(way)[0], tolerance)
    assert not apart, "\n".join([f"{way}, {len(apart)} differences:", *apart[:20]])


def assert_all_the_same(found: Arrived, way: str) -> None:
    """No worker has another bit than the chief."""
    chief, *others = ({k: v for k, v in all_.items() if k != "on_chief"} for all_ in found.outcomes(way))
    for index, other in enumerate(others, start=1):
        apart = differences(other, chief, tolerance=0)
        assert not apart, "\n".join([f"{way}, worker {index} beside the chief, {len(apart)} differences:", *apart[:20]])


@pytest.mark.parametrize(("way", "world"), RUNS)
def test_workers_arrive_where_one_process_does(arrive: Arrive, way: str, world: str) -> None:
    assert_close(arrive(WORLDS[world]), arrive(ways()[way].reference(WORLDS[world])), way)


@pytest.mark.parametrize(("way", "world"), [run for run in RUNS if run.values[1] != "1"])
def test_all_workers_arrive_at_the_same_to_the_last_bit(arrive: Arrive, way: str, world: str) -> None:
    assert_all_the_same(arrive(WORLDS[world]), way)


@pytest.mark.parametrize("way", REPRESENTATIVE)
def test_two_workers_with_the_oldest_keras_arrive_where_one_process_does(
    arrive: Arrive, oldest_keras: str, way: str
) -> None:
    found = arrive(WORLDS["2"], REPRESENTATIVE, keras=oldest_keras)
    assert "tf-launch: Keras 3.12.0 " in found.outputs[0]
    assert_close(found, arrive(ways()[way].reference(WORLDS["2"])), way)
    assert_all_the_same(found, way)


@pytest.mark.parametrize("way", BY_REPLICAS)
def test_mirrored_strategy_is_untouched_to_the_last_bit(arrive: Arrive, way: str) -> None:
    mirrored = World(0, devices=2, mirrored=True)
    stock, enabled = arrive(mirrored), arrive(mirrored, BY_REPLICAS, enable=FIX)
    assert_close(enabled, stock, way, tolerance=0)


@pytest.mark.parametrize(("world", "way"), [(world, way) for world, ways_ in SAVED.items() for way in ways_])
def test_what_workers_save_answers_alike_in_a_process_without_strategy(read: Read, way: str, world: str) -> None:
    saved, answers = read(world)
    [of_chief, *_] = saved.outcomes(way)
    assert not differences({"predict": answers[way]}, {"predict": predicted(of_chief)}, 1e-6)


def test_a_worker_says_once_what_was_done_for_which_keras(arrive: Arrive) -> None:
    for output in arrive(WORLDS["3"]).outputs:
        assert len([line for line in output.splitlines() if line.startswith("tf-launch: Keras 3.")]) == 1


def test_a_program_that_uses_tf_keras_as_the_tutorials_do_trains(gang: Callable[..., Any]) -> None:
    ended = gang(2, ["python", str(SCRIPTS / "fit_as_in_tutorial.py")], keras_fix=True)
    assert [worker.exit_code for worker in ended] == [0, 0], ended[0].output[-4000:]
    learned = {last_line(worker.output) for worker in ended}
    assert len(learned) == 1
    assert len(json.loads(learned.pop())["losses"]) == 2


@pytest.mark.parametrize("workers", [0, 1])
def test_a_program_that_calls_enable_itself_trains_with_one_worker_and_without_tf_config(
    gang: Callable[..., Any], workers: int
) -> None:
    [ended] = gang(workers, ["python", str(SCRIPTS / "enable_alone.py"), FIX], env=OURS)
    assert ended.exit_code == 0, ended.output[-4000:]
    assert ended.output.count("tf-launch:") == 1


def test_a_program_that_builds_graphs_by_hand_gets_what_stock_keras_says(
    gang: Callable[..., Any], tmp_path: Path
) -> None:
    modules = [FIX, f"{FIX}.stall", f"{FIX}.progress"]
    env = {**OURS, "LAUNCH_PROGRESS": str(tmp_path / "progress.jsonl")}
    [ended] = gang(1, ["python", str(SCRIPTS / "graph_by_hand.py"), *modules], env=env)
    assert ended.exit_code == 0, ended.output[-4000:]
    [line] = [line for line in ended.output.splitlines() if line.startswith("{")]
    answers = json.loads(line)
    assert "only supported inside of tf.function or when eager execution is enabled" in answers["stock"]["fit"]
    assert answers["enabled"] == answers["stock"]
    assert answers["eager"]["fit"] == "History"
