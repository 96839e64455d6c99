"""`scripts/test`: all checks and tests, those that a change can break, or what is asked of pytest."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from changed_tests import broken_by, changed_files

ROOT = Path(__file__).resolve().parents[1]
FAILED = ROOT / ".pytest_cache" / "v" / "cache" / "lastfailed"
PYTEST = [sys.executable, "-m", "pytest"]
CHECKS = (["ruff", "check"], ["ruff", "format", "--check"], ["mypy"])
ON_CI = os.environ.get("CI", "").lower() not in {"", "0", "false"}
EXIT_TESTS_FAILED = 1


def main(arguments: list[str]) -> int:
    if not arguments:
        return checks_failed() or run_pytest(side_by_side())
    if arguments != ["--changed"]:
        whole = all((ROOT / argument).is_dir() for argument in arguments)
        return run_pytest([*side_by_side(arguments), *arguments] if whole else arguments)
    tests = broken_by(changed_files(ROOT), ROOT)
    print(f"{len(tests)} files of tests:", *tests, sep="\n  ", flush=True)
    return checks_failed() or (run_pytest([*side_by_side(tests), *tests]) if tests else 0)


def checks_failed() -> int:
    """Run them all; 1: one of them has failed."""
    codes = [subprocess.run([sys.executable, "-m", *check], cwd=ROOT).returncode for check in CHECKS]
    return int(any(codes))


def side_by_side(paths: Sequence[str] = ()) -> list[str]:
    """The options for several processes, each of which takes whole files of these paths (none: of all).

    There are two more than there are cores: much of what is tested is waiting. What is in `tests/unit` computes.
    """
    waits = not paths or not all((ROOT / path).is_relative_to(ROOT / "tests" / "unit") for path in paths)
    processes = min(8, len(os.sched_getaffinity(0)) + 2 * waits)
    return ["--numprocesses", str(processes), "--dist", "loadfile", "--no-loadscope-reorder"]


def run_pytest(arguments: list[str]) -> int:
    """The exit code of pytest. On CI, tests that fail get a second chance."""
    if not ON_CI:
        os.execv(sys.executable, [*PYTEST, *arguments])
    code = subprocess.run([*PYTEST, "--cache-clear", *arguments], cwd=ROOT).returncode
    return second_chance() if code == EXIT_TESTS_FAILED and failed() else code


def second_chance() -> int:
    """Run the tests that failed once more, alone; name those that pass now."""
    before = failed()
    print(f"\n{len(before)} failed: once more, alone", flush=True)
    code = subprocess.run([*PYTEST, *before], cwd=ROOT).returncode
    for name in before:
        if name not in failed():
            print(f"FLAKY {name}: failed at first, and passed when it ran once more, alone", flush=True)
    return code


def failed() -> list[str]:
    """The names of the tests that have failed and not passed since."""
    return list(json.loads(FAILED.read_text())) if FAILED.exists() else []


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
