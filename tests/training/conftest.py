"""Starts real TensorFlow workers: by hand with `gang(2, argv)`, by the launcher with `launched("--workers", "2")`.

Most of them begin with TensorFlow imported, as `tests/support/warm_tensorflow.py` tells.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import portpicker
import pytest
from support.launching import MARK, Launch, launches, nothing_left
from support.warm_tensorflow import WarmProcess, WarmTensorFlow, obeys

REPOSITORY = Path(__file__).resolve().parents[2]
QUIET = {"TF_CPP_MIN_LOG_LEVEL": "2", "CUDA_VISIBLE_DEVICES": "-1"}
NOT_INHERITED = ("TF_CONFIG", "TF_GRPC_REUSE_PORT", "LAUNCH_KERAS_FIX", "LAUNCH_PROGRESS", "TF_USE_LEGACY_KERAS")


class Ended(NamedTuple):
    """How one worker ended. `exit_code` is negative for a signal, as in `subprocess`."""

    exit_code: int
    output: str


Gang = Callable[..., list[Ended]]


@pytest.fixture(scope="session")
def warm_tensorflow() -> Iterator[WarmTensorFlow]:
    warm = WarmTensorFlow()
    yield warm
    warm.close()


@pytest.fixture(scope="session")
def python(warm_tensorflow: WarmTensorFlow) -> list[str]:
    """What to write for `python` in a script or a cluster file, where `launched` does not see it."""
    return warm_tensorflow.python if obeys(os.environ) else [sys.executable]


@pytest.fixture(scope="session")
def gang(tmp_path_factory: pytest.TempPathFactory, warm_tensorflow: WarmTensorFlow) -> Gang:
    """Run one program as a gang of local workers and wait for all of them: `Ended(exit_code, output)` by index.

    `gang(n, argv, env={}, cwd=REPOSITORY, timeout=400, keras_fix=False)`

    `n=0` starts one process without `TF_CONFIG`. `{index}` in an argument or an environment value becomes the
    worker's index. `argv[0] == "python"` is this interpreter, with TensorFlow imported. `keras_fix=True` adds what the
    launcher adds.
    Workers still running after `timeout` seconds are killed (exit code -9), and at the end the session of each.
    """

    def run(
        n: int,
        argv: Sequence[str],
        env: Mapping[str, str] | None = None,
        cwd: Path = REPOSITORY,
        timeout: float = 400,
        keras_fix: bool = False,
    ) -> list[Ended]:
        logs = tmp_path_factory.mktemp("gang")
        given = dict(env or {}) | (keras_fix_env(env or {}) if keras_fix else {})
        configs = [{"TF_CONFIG": config} for config in tf_configs(n)] or [{}]
        deadline = time.monotonic() + timeout
        with ExitStack() as stack:
            workers = [
                stack.enter_context(started(warm_tensorflow, i, argv, given | config, cwd, logs / f"worker-{i}.log"))
                for i, config in enumerate(configs)
            ]
            codes = [exit_code(worker, deadline) for worker in workers]
        return [Ended(code, (logs / f"worker-{i}.log").read_text(errors="replace")) for i, code in enumerate(codes)]

    return run


def keras_fix_env(env: Mapping[str, str]) -> dict[str, str]:
    """What the launcher sets to bring the Keras fix into a worker."""
    bootstrap = str(REPOSITORY / "launcher" / "on_host" / "bootstrap")
    path = env.get("PYTHONPATH") or os.environ.get("PYTHONPATH")
    return {
        "PYTHONPATH": os.pathsep.join([bootstrap, path] if path else [bootstrap]),
        "LAUNCH_KERAS_FIX": str(REPOSITORY / "training" / "keras_fix"),
    }


def tf_configs(n: int) -> list[str]:
    """`TF_CONFIG` of each of `n` workers on free local ports."""
    cluster = {"worker": [f"127.0.0.1:{portpicker.pick_unused_port()}" for _ in range(n)]}
    return [json.dumps({"cluster": cluster, "task": {"type": "worker", "index": i}}) for i in range(n)]


@contextmanager
def started(
    warm: WarmTensorFlow, index: int, argv: Sequence[str], env: Mapping[str, str], cwd: Path, log: Path
) -> Iterator[subprocess.Popen[bytes] | WarmProcess]:
    """One worker in a session of its own, which does not outlive the block."""
    program, *words = (word.replace("{index}", str(index)) for word in argv)
    inherited = {key: value for key, value in os.environ.items() if key not in NOT_INHERITED}
    added = {
        **QUIET,
        "TMPDIR": str(log.parent),  # AutoGraph leaves its files there when a worker ends at once
        "TF_NUM_INTRAOP_THREADS": "1",
        "TF_NUM_INTEROP_THREADS": "2",
        "PYTHONUNBUFFERED": "1",
    } | {key: value.replace("{index}", str(index)) if key != "TF_CONFIG" else value for key, value in env.items()}
    environment = inherited | added
    process: subprocess.Popen[bytes] | WarmProcess
    with log.open("wb") as output:
        if program == "python" and obeys(environment):
            process = warm.start(words, environment, cwd, output)
        else:
            process = subprocess.Popen(
                [sys.executable if program == "python" else program, *words],
                cwd=cwd,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def exit_code(process: subprocess.Popen[bytes] | WarmProcess, deadline: float) -> int:
    """Wait for a worker until the deadline, then kill it."""
    try:
        return process.wait(max(0.0, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()


@pytest.fixture(scope="session")
def launched(
    tmp_path_factory: pytest.TempPathFactory, warm_tensorflow: WarmTensorFlow
) -> Iterator[Callable[..., Launch]]:
    """Run `launch ARGUMENTS` until its end, over real TensorFlow workers; no process of it may be left afterwards.

    `launched("--workers", "2", "--", "python", script, env={})`. The workers begin with TensorFlow imported, behind
    processes that stand in for them, unless a test is about how they begin or end and asks for `fresh` ones. A launcher
    that does not end is killed after `patience` seconds, and the test fails. `meanwhile` is called with the launch
    while it runs. Where it succeeds at the first attempt, no temporary file may be left either, unless `kills` says
    that tasks are killed on the way, or stopped at its end (they leave TensorFlow's).
    """
    inherited = {
        key: value
        for key, value in os.environ.items()
        if not key.startswith(("LAUNCH_", "TF_", "VIRTUAL_ENV", "CONDA_"))
    }

    def run(
        *arguments: str | Path,
        env: Mapping[str, str] | None = None,
        patience: float = 280,
        meanwhile: Callable[[Launch], object] = lambda _: None,
        kills: bool = False,
        fresh: bool = False,
    ) -> Launch:
        words = list(map(str, arguments))
        if "python" in words and not fresh and obeys(inherited):
            at = words.index("python", words.index("--"))
            words[at : at + 1] = warm_tensorflow.python
        directory = tmp_path_factory.mktemp("launched")
        temporary = directory / "tmp"
        temporary.mkdir()
        own = {"PYTHONPATH": str(REPOSITORY), "TMPDIR": str(temporary), MARK: mark, **QUIET}
        own["PYTHONDONTWRITEBYTECODE"] = "1"  # AutoGraph imports what it writes to a temporary file
        with launches(directory, inherited | own) as start:
            launch: Launch = start(*words, env=env)
            meanwhile(launch)
            code = launch.wait(patience)
        if code == 0 and not kills and not (launch.run_directory / "attempt-1").exists():
            assert not list(temporary.iterdir())
        return launch

    with nothing_left() as mark:
        yield run
