"""What all tiers share: a test skips where a program is missing, but not on CI; hypothesis does not measure time."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Generator
from typing import TypeVar

import hypothesis
import pytest
from rig import missing_program

ON_CI = os.environ.get("CI", "").lower() not in {"", "0", "false"}

# What the tests start keeps its bytecode, as it does for users: else each of a thousand launches compiles the launcher.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# A shell's `&` has a background job ignore Ctrl-C, and what the tests start would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)

hypothesis.settings.register_profile("unhurried", deadline=None)
hypothesis.settings.register_profile("on_ci", deadline=None, derandomize=True, database=None)
hypothesis.settings.load_profile("on_ci" if ON_CI else "unhurried")

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
