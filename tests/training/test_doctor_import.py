"""What `launch doctor --import` says of TensorFlow is what TensorFlow says."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def output(*words: str, cwd: Path = ROOT, **variables: str) -> str:
    env = {**os.environ, "PYTHONPATH": str(ROOT), **variables}
    return subprocess.run(
        [sys.executable, *words], cwd=cwd, env=env, check=True, stdout=subprocess.PIPE, text=True
    ).stdout


def test_tensorflow_is_really_imported_where_that_is_asked_for(tmp_path: Path) -> None:
    record = json.loads(output("-m", "launcher", "doctor", "--workers", "1", "--import", "--json", cwd=tmp_path))

    tensorflow = record["hosts"][0]["tensorflow"]
    assert (tensorflow["version"], tensorflow["reason"]) == (version("tensorflow"), "")
    assert record["findings"] == [each for each in record["findings"] if each["severity"] != "error"]
