"""`scripts/test` on a machine that has Python and what every Debian has, but no package that only some tests need."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support.launching import ROOT

THERE = (
    "bash",
    "cat",
    "cksum",
    "dirname",
    "env",
    "hostname",
    "mkdir",
    "mount",
    "readlink",
    "rm",
    "setsid",
    "sh",
    "sleep",
)
"""Some of the programs that every Debian has: those that the tests below run."""
NEEDY = (
    "tests/ssh",
    "tests/unit/test_project_files.py",
    "tests/unit/test_sync_parts.py",
    "tests/process/test_deaf_hosts.py",
    "tests/process/test_leftovers.py::test_a_run_under_way_is_told_as_such",
)
"""Tests that use other programs, and one launch that can do without."""
REASON = re.compile(r"SKIPPED \[\d+\] \S+: (.*)")


@pytest.fixture
def bare(tmp_path: Path) -> dict[str, str]:
    """The environment of such a machine: not CI, where nothing may be skipped, and unaware of the pytest around it."""
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "python3").symlink_to(sys.executable)
    for name in THERE:
        (programs / name).symlink_to(str(shutil.which(name)))
    known = {name: value for name, value in os.environ.items() if name != "CI" and not name.startswith("PYTEST_")}
    return {**known, "PATH": str(programs)}


def test_a_test_whose_package_is_missing_is_skipped_with_the_command_that_installs_it(bare: dict[str, str]) -> None:
    words = [ROOT / "scripts/test", "-q", "-p", "no:cacheprovider", *NEEDY]
    done = subprocess.run(words, env=bare, capture_output=True, text=True)

    assert done.returncode == 0, done.stdout
    reasons = set(REASON.findall(done.stdout))
    assert any("the rig needs" in reason and "openssh-server" in reason and "nftables" in reason for reason in reasons)
    assert not [reason for reason in reasons if "apt-get install" not in reason]
    assert re.search(r"\d+ passed, \d+ skipped", done.stdout)
