"""Real gangs that came to an end (see failure_tails/README.md): whoever arrives first, the culprit is named."""

from __future__ import annotations

import dataclasses
import itertools
import json
import re
from dataclasses import dataclass
from pathlib import Path

import pytest

from launcher.cluster.spec import Task
from launcher.hosts.events import TaskExited
from launcher.run.failure.ending import Ending
from launcher.run.failure.excerpt import SCREENFUL
from launcher.run.failure.failure import Failure, Kind, Runtime
from launcher.run.failure.report import report
from launcher.run.failure.root_cause import root_cause

RECORDINGS = Path(__file__).parent / "failure_tails"
W0, W1 = Task("worker", 0), Task("worker", 1)
BAD_LABELS = "ValueError: labels out of range: found 11, expected 0 to 9"
BAD_RECORD = "InputError: record 7 cannot be read"


@dataclass(frozen=True)
class Expected:
    """Who is to be named in a recording, and for what."""

    kind: Kind
    summary: str = ""
    culprit: Task = W1
    own_line: str | None = None
    """The line of the program at which the location points."""


RAISE = 'raise ValueError("labels out of range'
READ = "raise InputError("
CRASHED, EXITED, KILLED = Kind.CRASHED, Kind.EXITED, Kind.KILLED
EXPECTED = {
    "abort": Expected(KILLED),
    "bad_usage": Expected(Kind.BAD_USAGE),
    "chained_during": Expected(
        CRASHED, "RuntimeError: cannot report the broken record", own_line="raise RuntimeError("
    ),
    "chained_from": Expected(CRASHED, BAD_RECORD, own_line=READ),
    "chief_sigkill": Expected(KILLED, culprit=W0),
    "chief_sigstop": Expected(Kind.STALLED, "it stopped answering", culprit=W0),
    "chief_value_error": Expected(CRASHED, BAD_LABELS, culprit=W0, own_line=RAISE),
    "cleanup_needs_peers": Expected(CRASHED, BAD_LABELS, own_line=RAISE),
    "distributed_dataset": Expected(CRASHED, BAD_RECORD, own_line=READ),
    "early_value_error": Expected(CRASHED, BAD_LABELS, own_line=RAISE),
    "exception_group": Expected(
        CRASHED, "ExceptionGroup: 2 shards failed (2 sub-exceptions)", own_line="raise Exception"
    ),
    "exit_message": Expected(EXITED),
    "faulthandler": Expected(CRASHED, "Fatal Python error: Segmentation fault", own_line="ctypes.string_at(0)"),
    "fit_callback": Expected(CRASHED, BAD_LABELS, own_line=RAISE),
    "fit_generator": Expected(CRASHED, BAD_LABELS, own_line=RAISE),
    "fit_numpy_function": Expected(CRASHED, r"KeyError: 'no such record:\n  7 of shard 3'", own_line="raise KeyError("),
    "fit_py_function": Expected(CRASHED, BAD_LABELS, own_line=RAISE),
    "fit_py_function_whole": Expected(CRASHED, BAD_LABELS, own_line=RAISE),
    "generator": Expected(CRASHED, BAD_RECORD, own_line=READ),
    "graph_nan": Expected(CRASHED, "InvalidArgumentError: the batch is not finite : Tensor had NaN values"),
    "graph_py_function": Expected(CRASHED, BAD_LABELS, own_line=RAISE),
    "interleaved": Expected(CRASHED, BAD_LABELS, own_line=RAISE),
    "logged_then_exit_3": Expected(EXITED),
    "logged_then_sigkill": Expected(KILLED),
    "memory_error": Expected(CRASHED, "MemoryError", own_line="bytearray(1 << 60)"),
    "missing_module": Expected(CRASHED, "ModuleNotFoundError: No module named 'nonexistent_augmentations'"),
    "multiline": Expected(CRASHED, "ValueError: shapes do not match:", own_line="raise ValueError("),
    "nan": Expected(CRASHED, "InvalidArgumentError: loss is not finite : Tensor had NaN values"),
    "no_such_module": Expected(EXITED),
    "no_such_script": Expected(Kind.BAD_USAGE),
    "not_executable": Expected(EXITED),
    "os_exit_7": Expected(EXITED),
    "own_unavailable": Expected(CRASHED, "UnavailableError: feature store 10.0.0.9:5000 does not answer"),
    "peer_logged": Expected(CRASHED, BAD_LABELS, own_line=RAISE),
    "port_in_use": Expected(CRASHED, "UnknownError: Could not start gRPC server"),
    "ps_fit_keras_3": Expected(
        CRASHED,
        "ValueError: To use this dataset, you need to pass this dataset to ClusterCoordinator",
        culprit=Task("chief", 0),
        own_line="model.fit(",
    ),
    "ps_sigkill": Expected(KILLED, culprit=Task("ps", 0)),
    "py_function": Expected(CRASHED, BAD_RECORD, own_line=READ),
    "segfault": Expected(KILLED),
    "shell_exit_9": Expected(EXITED),
    "shell_not_found": Expected(EXITED),
    "sigint": Expected(KILLED),
    "sigkill": Expected(KILLED),
    "sigstop": Expected(Kind.STALLED, "it stopped answering"),
    "sigstop_stopped": Expected(Kind.STALLED, "it stopped answering"),
    "started_again": Expected(
        CRASHED, "AbortedError: Collective ops is aborted by: Collective ops is aborted by: Error"
    ),
    "syntax_error": Expected(CRASHED, "SyntaxError: invalid syntax"),
    "sys_exit_3": Expected(EXITED),
    "tensor_memory": Expected(CRASHED, "ResourceExhaustedError: OOM when allocating tensor"),
    "thread": Expected(CRASHED, BAD_LABELS, own_line=RAISE),
    "three_sigkill": Expected(KILLED),
    "three_value_error": Expected(CRASHED, BAD_LABELS, own_line=RAISE),
    "three_value_error_stopped": Expected(CRASHED, BAD_LABELS, own_line=RAISE),
    "touched_early": Expected(CRASHED, "RuntimeError: Collective ops must be configured at program startup"),
    "value_error": Expected(CRASHED, BAD_LABELS, own_line=RAISE),
    "value_error_stopped": Expected(CRASHED, BAD_LABELS, own_line=RAISE),
    "wrapped_collateral": Expected(CRASHED, BAD_LABELS, own_line=RAISE),
}
SAME_ON_ALL = {
    "fit_all_layer_call": ("ValueError: Scaled.call(): Dimensions must be equal, but are 4 and 3", "fit.py:35"),
    "fit_all_input_shape": ("ValueError: Sequential.call(): Input 0 with name 'None' of layer 'dense'", "fit.py:74"),
    "fit_stock": ("ValueError: Attempt to convert a value (PerReplica", "fit.py:74"),
}
"""Where every worker fails alike: what is said, and at which line of the program."""
OTHERS = ("exit_0", "shape_mismatch", *SAME_ON_ALL)


def endings_of(name: str) -> list[Ending]:
    folder = RECORDINGS / name
    return [
        Ending(
            TaskExited(
                host="gpu-a",
                task=Task.of_slug(exited["task"]),
                exit_code=exited["exit_code"],
                signal=exited["signal"],
                out_of_memory=False,
                tail=(folder / f"{exited['task']}.log").read_bytes(),
            ),
            exited["stopped"],
        )
        for exited in json.loads((folder / "exits.json").read_text())
    ]


def cause_of(endings: list[Ending]) -> Failure:
    cause = root_cause([ending.failure for ending in endings])
    assert cause is not None
    return cause


def orders() -> list[tuple[str, tuple[int, ...]]]:
    return [(name, order) for name in EXPECTED for order in itertools.permutations(range(len(endings_of(name))))]


def recorded(name: str, index: int) -> Failure:
    return next(each.failure for each in endings_of(name) if each.event.task == Task("worker", index))


@pytest.mark.parametrize(("name", "order"), orders())
def test_the_culprit_is_named_whoever_arrives_first(name: str, order: tuple[int, ...]) -> None:
    expected = EXPECTED[name]
    endings = endings_of(name)

    cause = cause_of([endings[at] for at in order])

    assert (expected.culprit, expected.kind) == (cause.task, cause.kind)
    assert cause.summary.startswith(expected.summary)


@pytest.mark.parametrize("name", [name for name, expected in EXPECTED.items() if expected.own_line])
def test_the_location_is_in_the_users_own_code(name: str) -> None:
    cause = cause_of(endings_of(name))

    assert cause.location is not None
    path, _, line = cause.location.rpartition(":")
    frame = next(at for at, text in enumerate(cause.excerpt) if f'File "{path}", line {line}' in text)
    if EXPECTED[name].kind is Kind.CRASHED and "faulthandler" not in name:
        assert EXPECTED[name].own_line in cause.excerpt[frame + 1]


@pytest.mark.parametrize("name", SAME_ON_ALL)
def test_a_failure_inside_fit_is_placed_in_the_users_own_code(name: str) -> None:
    said, place = SAME_ON_ALL[name]

    cause = cause_of(endings_of(name))

    assert cause.summary.startswith(said)
    assert cause.location == f"/home/user/project/{place}"


@pytest.mark.parametrize("name", [*EXPECTED, *OTHERS])
def test_an_excerpt_is_a_screenful_without_start_up_notices(name: str) -> None:
    cause = cause_of(endings_of(name))

    assert len(cause.excerpt) <= SCREENFUL
    assert not any("cuda" in line or "oneDNN" in line or "rebuild TensorFlow" in line for line in cause.excerpt)


@pytest.mark.parametrize("name", [*EXPECTED, "exit_0"])
def test_what_ended_because_of_the_culprit_is_inconclusive(name: str) -> None:
    culprit = EXPECTED[name].culprit if name in EXPECTED else W1

    others = [each.failure for each in endings_of(name) if each.event.task != culprit]

    assert [each for each in others if each.is_conclusive] == []


@pytest.mark.parametrize(
    "name", ["value_error", "sigkill", "three_value_error", "sigstop", "sys_exit_3", "distributed_dataset"]
)
def test_a_complaint_says_which_peer_was_lost(name: str) -> None:
    assert Task("worker", 1) == recorded(name, 0).accused


def test_two_complaints_in_a_row_lead_to_the_silent_one() -> None:
    complaint = recorded("three_value_error", 0)
    silent = recorded("sigstop_stopped", 1)
    middle = recorded("three_value_error", 2)

    cause = root_cause([middle, complaint, silent])

    assert cause is not None
    assert (Task("worker", 1), Kind.STALLED) == (cause.task, cause.kind)


def test_a_worker_that_ended_too_early_is_named_over_the_complaint_about_it() -> None:
    cause = cause_of(endings_of("exit_0"))

    assert (Task("worker", 1), Kind.LEFT) == (cause.task, cause.kind)
    assert "ended too early (exit code 0)" in report(cause)[0]


def test_a_worker_that_ended_well_after_the_complaint_is_not_blamed_for_it() -> None:
    left, complaint = endings_of("exit_0")

    assert Kind.COLLATERAL is cause_of([complaint, left]).kind


def test_a_shape_mismatch_is_no_complaint_about_a_lost_peer() -> None:
    cause = cause_of(endings_of("shape_mismatch"))

    assert Kind.CRASHED is cause.kind
    assert "Shape mismatch in the collective instance" in cause.summary
    assert "same program everywhere" in (cause.remedy or "")


def test_a_chatty_program_does_not_hide_its_traceback() -> None:
    excerpt = cause_of(endings_of("interleaved")).excerpt

    assert excerpt[0] == "Traceback (most recent call last):"
    assert not any(line.startswith("loader 3") for line in excerpt)


def test_a_traceback_that_was_logged_earlier_is_not_what_stopped_worker_failed_of() -> None:
    went_on = (
        b'ERROR:root:skipping a record\nTraceback (most recent call last):\n  File "a.py", line 1, in f\nKeyError: 1\n'
    )
    event = TaskExited("gpu-a", Task("worker", 0), None, 9, False, b"step 1\n" + went_on + b"step 2\n")

    assert Kind.STOPPED is Ending(event, stopped=True).failure.kind


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("missing_module", "install nonexistent_augmentations for /opt/py/bin/python on gpu-a"),
        ("no_such_module", "install trainning for /opt/py/bin/python on gpu-a"),
        ("touched_early", "create the MultiWorkerMirroredStrategy before anything else"),
        ("port_in_use", "the port that the program gave TensorFlow is taken on gpu-a"),
        ("memory_error", "smaller batch"),
        ("tensor_memory", "smaller batch"),
        ("no_such_script", "the file must be on gpu-a, too"),
        ("shell_not_found", "the command does not exist on gpu-a"),
        ("not_executable", "chmod +x"),
        ("ps_fit_keras_3", "Keras 3 cannot fit on parameter servers"),
    ],
)
def test_a_known_failure_comes_with_its_remedy(name: str, words: str) -> None:
    python = Runtime("/opt/py/bin/python")
    cause = root_cause([dataclasses.replace(ending, runtime=python).failure for ending in endings_of(name)])

    assert cause is not None
    assert words in (cause.remedy or "")


@pytest.mark.parametrize("name", ["value_error", "sys_exit_3", "own_unavailable", "chained_from", "bad_usage", "nan"])
def test_no_remedy_is_made_up(name: str) -> None:
    assert cause_of(endings_of(name)).remedy is None


def test_every_recording_is_checked() -> None:
    assert {*EXPECTED, *OTHERS} == {folder.name for folder in RECORDINGS.iterdir() if (folder / "exits.json").exists()}


def test_the_recordings_name_no_path_of_the_machine_they_were_made_on() -> None:
    logs = b"".join(path.read_bytes() for path in RECORDINGS.glob("*/*.log"))

    paths = set(re.findall(rb'File "(/[^"]*)"', logs))

    home = (b"/home/user/project/", b"/home/user/tf-launch/training/", b"/home/user/venv/")
    allowed = (*home, b"/usr/lib/python3.11/", b"/tmp/__autograph_generated_file")
    assert set() == {path for path in paths if not path.startswith(allowed)}


def test_a_task_that_was_started_again_by_itself_is_told_what_to_do() -> None:
    cause = cause_of(endings_of("started_again"))

    assert cause.remedy is not None
    assert cause.remedy.startswith("TensorFlow saw two processes called worker 1. ")


def test_a_peer_of_such_a_task_that_alone_complains_names_it_too() -> None:
    (complaint,) = [each for each in endings_of("started_again") if each.event.task == Task("worker", 0)]
    silent = Ending(complaint.event._replace(task=Task("worker", 1), signal=9, exit_code=None, tail=b""), stopped=True)

    cause = cause_of([complaint, silent])

    assert (cause.kind, cause.accused) == (Kind.COLLATERAL, Task("worker", 1))
    assert cause.remedy is not None
    assert "two processes called worker 1" in cause.remedy
