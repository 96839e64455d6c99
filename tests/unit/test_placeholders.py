"""What differs from task to task in a command and in environment values, and what never does."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launcher.cluster.placeholders import MEANINGS, filled, kept, values_of
from launcher.cluster.spec import ClusterSpec, Task

VALUES = {name: f"<{name}>" for name in MEANINGS}
SPEC = ClusterSpec(
    {
        Task("ps", 0): "10.0.0.3:2000",
        Task("worker", 0): "10.0.0.2:2000",
        Task("worker", 1): "10.0.0.2:2001",
        Task("chief", 0): "10.0.0.1:2000",
        Task("evaluator", 0): "10.0.0.3:2001",
    }
)
NEAR = st.sampled_from(["{", "$", "}", "{}", "{{", "}}", "index", "rank", "run_dir", ":02d", "!r", " ", "{ index }"])
TEXT = st.lists(NEAR | st.text(max_size=5)).map("".join)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("--task_index={index}", "--task_index=<index>"),
        ("{type}-{index}.log", "<type>-<index>.log"),
        ('{"task": {"index": {index}}}', '{"task": {"index": <index>}}'),
        ("{address},{chief_address}", "<address>,<chief_address>"),
        ("{{index}}", "{index}"),
        ("{{{index}}}", "{{index}}"),
        ("{{index}} is {index}", "{index} is <index>"),
        ("{{index}", "{<index>"),
    ],
)
def test_a_known_name_in_braces_is_replaced_and_doubled_braces_keep_it(text: str, value: str) -> None:
    assert filled(text, VALUES) == value


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "{index:02d}",
        "{rank!r}",
        "{ index }",
        "{Index}",
        "{task_index}",
        "{worker}",
        "$INDEX ${index:-0}",
        "for host in a b; do echo ${host} ${{rank}}; done",
        "{print}",
        '{{"a": 1}}',
        '{"lr": 0.1, "layers": [1, {"n": 2}]}',
        "awk '{print $1}'",
        "{{}}",
        "index",
    ],
)
def test_any_other_text_in_braces_stays_as_it_is(text: str) -> None:
    assert filled(text, VALUES) == text


@given(TEXT)
def test_a_text_without_a_known_name_is_unchanged(text: str) -> None:
    if not any(f"{{{name}}}" in text for name in MEANINGS):
        assert filled(text, VALUES) == text


@given(TEXT)
def test_a_text_can_be_kept_as_it_is(text: str) -> None:
    assert filled(kept(text), VALUES) == text


def ranks(spec: ClusterSpec) -> dict[str, str]:
    return {task.slug: values_of(task, spec, "gpu-a", "/runs/r")["rank"] for task in spec.tasks}


def test_ranks_count_the_chief_then_workers_then_parameter_servers_and_the_evaluator() -> None:
    assert ranks(SPEC) == {"chief-0": "0", "worker-0": "1", "worker-1": "2", "ps-0": "3", "evaluator-0": "4"}


def test_each_name_stands_for_what_it_says() -> None:
    assert values_of(Task("worker", 1), SPEC, "gpu-a", "/runs/r") == {
        "index": "1",
        "rank": "2",
        "type": "worker",
        "workers": "3",
        "address": "10.0.0.2:2001",
        "chief_address": "10.0.0.1:2000",
        "host": "gpu-a",
        "run_dir": "/runs/r",
    }


def test_without_a_chief_its_address_is_that_of_the_first_worker() -> None:
    spec = ClusterSpec({Task("worker", 0): "a:1", Task("worker", 1): "b:1"})

    assert values_of(Task("worker", 1), spec, "b", "/r")["chief_address"] == "a:1"
