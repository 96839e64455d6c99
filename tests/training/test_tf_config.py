"""`TF_CONFIG` as TensorFlow itself understands it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import portpicker
import pytest
from support.last_line import last_line

from launcher.cluster.spec import ClusterSpec, Task, in_order, number_tasks, tf_config

CLUSTERS = {
    "one worker": {"worker": 1},
    "workers": {"worker": 3},
    "only a chief": {"chief": 1},
    "chief and workers": {"chief": 1, "worker": 2},
    "chief and evaluator": {"chief": 1, "worker": 2, "evaluator": 1},
    "workers and evaluator": {"worker": 2, "evaluator": 1},
    "parameter servers": {"chief": 1, "worker": 3, "ps": 2},
    "parameter servers and evaluator": {"chief": 1, "worker": 2, "ps": 2, "evaluator": 1},
    "parameter servers without a chief": {"worker": 12, "ps": 2},
}

# What TensorFlow makes of each TF_CONFIG of a list.
ASK_TENSORFLOW = """
import json, os, sys
import tensorflow as tf
from tensorflow.python.distribute import multi_worker_util

def answer(config):
    os.environ["TF_CONFIG"] = config
    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    spec, kind, index = resolver.cluster_spec(), resolver.task_type, resolver.task_id
    multi_worker_util._validate_cluster_spec(spec, kind, index)
    counted = kind in ("chief", "worker", "evaluator")
    return {
        "cluster": spec.as_dict(),
        "type": kind,
        "index": index,
        "address": spec.task_address(kind, index),
        "is_chief": multi_worker_util.is_chief(spec, kind, index),
        "workers": multi_worker_util.worker_count(spec, kind) if counted else None,
        "id": multi_worker_util.id_in_cluster(spec, kind, index) if counted else None,
    }

print(json.dumps([answer(config) for config in json.loads(sys.argv[1])]))
"""

TRAIN_ONE_STEP = """
import tensorflow as tf
strategy = tf.distribute.MultiWorkerMirroredStrategy()
total = strategy.reduce("SUM", strategy.run(lambda: tf.constant(1.0)), axis=None)
print("replicas", strategy.num_replicas_in_sync, "sum", float(total))
"""


def spec_of(counts: dict[str, int]) -> ClusterSpec:
    """A cluster whose every task has an address of its own."""
    (tasks,) = number_tasks([counts])
    return ClusterSpec({task: f"10.0.0.1:{2000 + i}" for i, task in enumerate(tasks)})


@pytest.fixture(scope="module")
def printed(gang: Callable[..., Any], tmp_path_factory: pytest.TempPathFactory) -> Callable[..., str]:
    """The last line that a program prints, with these words and this `TF_CONFIG`."""

    def run(program: str, *words: str, tf_config: str | None = None) -> str:
        script = tmp_path_factory.mktemp("asked") / "program.py"
        script.write_text(program)
        [ended] = gang(0, ["python", str(script), *words], env={"TF_CONFIG": tf_config} if tf_config else {})
        assert ended.exit_code == 0, ended.output
        return last_line(ended.output)

    return run


@pytest.fixture(scope="module")
def answers(printed: Callable[..., str]) -> dict[tuple[str, Task], dict[str, Any]]:
    """TensorFlow's answer for every task of every cluster."""
    asked = [(name, task) for name, counts in CLUSTERS.items() for task in spec_of(counts).tasks]
    configs = [tf_config(spec_of(CLUSTERS[name]), task) for name, task in asked]
    return dict(zip(asked, json.loads(printed(ASK_TENSORFLOW, json.dumps(configs))), strict=True))


TASKS = [(name, task) for name, counts in CLUSTERS.items() for task in spec_of(counts).tasks]
every_task = pytest.mark.parametrize(
    ("name", "task"), TASKS, ids=[f"{task.slug} of {name}".replace(" ", "_") for name, task in TASKS]
)


@every_task
def test_tensorflow_knows_the_task_and_its_address(answers: Any, name: str, task: Task) -> None:
    answer = answers[name, task]

    assert (answer["type"], answer["index"]) == (task.type, task.index)
    assert answer["address"] == spec_of(CLUSTERS[name]).addresses[task]


@every_task
def test_tensorflow_sees_the_same_peers(answers: Any, name: str, task: Task) -> None:
    alone = task.type == "evaluator"
    peers = [each for each in spec_of(CLUSTERS[name]).tasks if (each.type == "evaluator") == alone]

    seen = [Task(kind, index) for kind, tasks in answers[name, task]["cluster"].items() for index in range(len(tasks))]

    assert in_order(seen) == tuple(peers)


@every_task
def test_tensorflow_and_the_launcher_agree_on_the_chief(answers: Any, name: str, task: Task) -> None:
    chief = task == spec_of(CLUSTERS[name]).chief

    assert answers[name, task]["is_chief"] == (chief or task.type == "evaluator")


@pytest.mark.parametrize("name", CLUSTERS)
def test_chief_and_workers_have_ids_without_gaps(answers: Any, name: str) -> None:
    training = [answer for (each, task), answer in answers.items() if each == name and task.type in ("chief", "worker")]

    assert [answer["id"] for answer in training] == list(range(len(training)))
    assert {answer["workers"] for answer in training} == {len(training)}


def test_an_evaluator_may_use_the_strategy_before_anybody_else_has_started(printed: Callable[..., str]) -> None:
    spec = ClusterSpec(
        {
            Task("chief", 0): "192.0.2.1:2222",
            Task("worker", 0): "192.0.2.2:2222",
            Task("evaluator", 0): f"localhost:{portpicker.pick_unused_port()}",
        }
    )

    config = tf_config(spec, Task("evaluator", 0))
    assert printed(TRAIN_ONE_STEP, tf_config=config) == "replicas 1 sum 1.0"


def test_a_chief_trains_while_its_evaluator_has_not_started(printed: Callable[..., str]) -> None:
    spec = ClusterSpec(
        {
            Task("chief", 0): f"localhost:{portpicker.pick_unused_port()}",
            Task("evaluator", 0): "192.0.2.1:2222",
        }
    )

    config = tf_config(spec, Task("chief", 0))
    assert printed(TRAIN_ONE_STEP, tf_config=config) == "replicas 1 sum 1.0"
