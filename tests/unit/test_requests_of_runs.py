"""What a run was asked for: `run.json` keeps it, and it may have been edited, or be another's."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from launcher.errors import LaunchError
from launcher.run.request import Request

ASKED = Request(
    cluster=Path("/p/cluster.yaml"),
    command=("train.py", "--data=\udcff"),
    env={"EPOCHS": "3"},
    max_restarts=2,
    stall=60.0,
    no_keras_fix=True,
    keras="2",
    directory=Path("/p"),
)


def test_it_is_read_as_it_was_written() -> None:
    assert Request.of_record(json.loads(json.dumps(ASKED.as_record()))) == ASKED


def test_that_of_another_version_may_have_more_or_less() -> None:
    assert Request.of_record({"workers": 2, "of_later_versions": 1}) == Request(workers=2)


@pytest.mark.parametrize(
    "wrong",
    [
        {"cluster": 1},
        {"workers": "\ud800"},
        {"command": "train.py"},
        {"env": {"A": 1}},
        {"stall": []},
        {"directory": {}},
    ],
    ids=str,
)
def test_what_no_launcher_has_written_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(LaunchError, match=r"`request` in the run's run\.json cannot be read"):
        Request.of_record(ASKED.as_record() | wrong)
