"""A process that begins with TensorFlow imported is what `python` would have become; so is what stands in for it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest
from support.launching import await_true
from support.warm_tensorflow import WarmTensorFlow

TELL = """
import json, os, sys
began_with = "tensorflow" in sys.modules, len(os.listdir("/proc/self/task"))
import tensorflow as tf
process = os.getcwd(), os.environ.get("SAID"), os.getsid(0) == os.getpid()
keras = tf.keras.__name__, os.path.basename(tf.__path__[1])
print(json.dumps([began_with, sys.argv, __name__, sys.path[0], *process, *keras]))
"""
LIVE = "import os, time\nprint(os.getpid(), flush=True)\ntime.sleep(1000)"


@pytest.fixture
def script(tmp_path: Path) -> Callable[[str], str]:
    def write(text: str) -> str:
        path = tmp_path / "script.py"
        path.write_text(text)
        return str(path)

    return write


def test_a_worker_finds_what_python_would_give_it(
    gang: Callable[..., Any], script: Callable[[str], str], tmp_path: Path
) -> None:
    path = script(TELL)
    [ended] = gang(0, ["python", path, "word"], env={"SAID": "yes"}, cwd=tmp_path)

    assert ended.exit_code == 0, ended.output
    began_with, *found = json.loads(ended.output.splitlines()[-1])
    assert began_with == [True, 1]
    assert found == [
        [path, "word"],
        "__main__",
        str(tmp_path),
        str(tmp_path),
        "yes",
        True,
        "keras._tf_keras.keras",
        "_tf_keras",
    ]


@pytest.mark.parametrize(
    ("ends", "code"), [("raise ValueError('no')", 1), ("raise SystemExit(7)", 7), ("import os; os.abort()", -6)]
)
def test_a_worker_ends_as_python_would(
    gang: Callable[..., Any], script: Callable[[str], str], ends: str, code: int
) -> None:
    [ended] = gang(0, ["python", script(ends)])

    assert ended.exit_code == code
    if code == 1:
        assert ended.output.startswith('Traceback (most recent call last):\n  File "' + script(ends))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_a_process_that_stands_in_passes_signals_on_and_ends_by_them(
    warm_tensorflow: WarmTensorFlow, script: Callable[[str], str], number: signal.Signals
) -> None:
    words = [*warm_tensorflow.python, script(LIVE)]
    with subprocess.Popen(words, env={"PATH": os.defpath}, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as front:
        assert front.stdout is not None
        worker = psutil.Process(int(front.stdout.readline()))
        front.send_signal(number)

        assert front.wait() == -number
    await_true(lambda: not worker.is_running(), "the end of the worker")
