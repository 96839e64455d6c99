"""What all tiers share.

A test skips where a program is missing, but not on CI. hypothesis does not measure time, and draws from a fixed seed on
CI. In a campaign (`FUZZ_SECONDS`) its tests are repeated, with new examples each time, until their time is over.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Generator
from pathlib import Path
from typing import TypeVar

import hypothesis
import pytest
from rig import missing_program

ON_CI = os.environ.get("CI", "").lower() not in {"", "0", "false"}

# What the tests start keeps its bytecode, as it does for users: else each of a thousand launches compiles the launcher.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# A shell's `&` has a background job ignore Ctrl-C, and nohup a hangup; what the tests start would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)

hypothesis.settings.register_profile("unhurried", deadline=None)
hypothesis.settings.register_profile("on_ci", deadline=None, derandomize=True, database=None)
hypothesis.settings.register_profile("campaign", deadline=None, max_examples=1000)
CAMPAIGN = float(os.environ.get("FUZZ_SECONDS") or 0)
"""Seconds, shared out evenly among the tests that draw examples; 0: each of them runs once."""
hypothesis.settings.load_profile("campaign" if CAMPAIGN else "on_ci" if ON_CI else "unhurried")
SHARE = pytest.StashKey[float]()
LONGEST = ("test_keras_multiworker.py", "test_training.py", "test_training_runs.py", "test_scripts.py")
"""Files that take a minute or more alone, the longest first."""

Report = TypeVar("Report", pytest.TestReport, pytest.CollectReport)


@pytest.fixture(scope="session")
def need() -> Callable[..., None]:
    """Skip the test where a program is missing: `need("fish")`, `need("ps", "procps")`."""

    def check(program: str, package: str | None = None) -> None:
        if reason := missing_program(program, package):
            pytest.skip(reason)

    return check


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Let a skipped test fail on CI."""
    return failed_if_skipped((yield))


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Let a skipped file fail on CI."""
    return failed_if_skipped((yield))


def failed_if_skipped(report: Report) -> Report:
    """CI's machine must have what every test needs: what is not tested there is tested nowhere. An xfail stays one."""
    if ON_CI and report.skipped and not hasattr(report, "wasxfail"):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
        report.outcome = "failed"
        report.longrepr = f"skipped, which on CI counts as a failure: {reason}"
    return report


@pytest.hookimpl(trylast=True)  # when -k and -m have chosen
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Share out a campaign's time, and the files among several processes."""
    if hasattr(config, "workerinput"):
        items[:] = in_turns(items)
    drawing = [item for item in items if CAMPAIGN and item.get_closest_marker("hypothesis")]
    for item in drawing:
        item.stash[SHARE] = CAMPAIGN / len(drawing)
        item.add_marker(pytest.mark.timeout(0))


def in_turns(items: list[pytest.Item]) -> list[pytest.Item]:
    """First the longest files, then those of all directories by turns.

    So some processes compute (tests/training) while others wait (tests/process), and all have ended soon after the
    first of them. The files of each directory are spread evenly over the whole.
    """
    files: dict[Path, list[pytest.Item]] = {}
    for item in items:
        files.setdefault(item.path, []).append(item)
    places = {}
    for directory in {path.parent for path in files}:
        own = [path for path in files if path.parent == directory]
        places |= {path: (n + 0.5) / len(own) for n, path in enumerate(own)}
    turns = {name: turn for turn, name in enumerate(LONGEST)}
    ordered = sorted(files, key=lambda path: (turns.get(path.name, len(turns)), places[path], str(path)))
    return [item for path in ordered for item in files[path]]


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, object, object]:
    """Repeat a test of a campaign until its share is over; the first failure ends it."""
    until = time.monotonic() + pyfuncitem.stash.get(SHARE, 0)
    result = yield
    given = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
    while time.monotonic() < until:
        pyfuncitem.obj(**given)
    return result
