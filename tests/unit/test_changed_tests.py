"""`scripts/test --changed` runs what a change can break: more than that where nobody knows, and never less."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

from changed_tests import TIERS, broken_by, changed_files  # noqa: E402 - found on the path of above

FILES = {
    "launcher/__init__.py": "",
    "launcher/__main__.py": "def main():\n    import launcher.deep.late\n",
    "launcher/deep/__init__.py": "",
    "launcher/deep/late.py": "from launcher.words import say\n",
    "launcher/words.py": "say = print\n",
    "launcher/sent.py": "",
    "training/__main__.py": "",
    "tests/conftest.py": "",
    "tests/support/launching.py": "",
    "tests/support/tensorflow_server.py": "",
    "tests/support/warm_tensorflow.py": "",
    "tests/support/hosts.py": "from support.launching import start\n",
    "tests/process/test_hosts.py": "from support.hosts import Host\n",
    "tests/process/test_scripts.py": "",
    "tests/process/programs/fail.py": "import launcher.words\n",
    "tests/ssh/test_hosts_over_ssh.py": "",
    "tests/training/conftest.py": "from support.launching import start\nimport support.warm_tensorflow\n",
    "tests/training/test_ways.py": "",
    "tests/unit/test_words.py": "from launcher.words import say\n",
    "tests/unit/test_deep.py": "from launcher.deep import late\n",
    "tests/unit/test_sources.py": "ROOT = parents[2]\n",
}
EVERY = [path for tier in TIERS for path in sorted(FILES) if path.startswith(f"{tier}/test_")]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ("tests/unit/test_words.py", {"tests/unit/test_words.py"}),
        ("launcher/words.py", {*EVERY} - {"tests/process/test_scripts.py", "tests/ssh/test_hosts_over_ssh.py"}),
        (
            "launcher/deep/__init__.py",
            {
                "tests/process/test_hosts.py",
                "tests/training/test_ways.py",
                "tests/unit/test_deep.py",
                "tests/unit/test_sources.py",
            },
        ),
        (
            "launcher/sent.py",
            {"tests/process/test_hosts.py", "tests/training/test_ways.py", "tests/unit/test_sources.py"},
        ),
        ("training/__main__.py", {"tests/training/test_ways.py", "tests/unit/test_sources.py"}),
        ("tests/support/hosts.py", {"tests/process/test_hosts.py"}),
        ("tests/support/tensorflow_server.py", {"tests/training/test_ways.py"}),
        ("tests/process/programs/fail.py", {path for path in EVERY if "/process/" in path}),
        ("tests/training/conftest.py", {"tests/training/test_ways.py"}),
        ("tests/conftest.py", {*EVERY}),
        ("docs/design.md", {path for path in EVERY if "/unit/" in path}),
        ("scripts/venv.sh", {path for path in EVERY if "/training/" not in path}),
        ("pyproject.toml", {*EVERY}),
        ("tests/unit/test_that_is_gone.py", set()),
    ],
)
def test_a_change_runs_whatever_imports_starts_or_may_read_it(checkout: Path, changed: str, expected: set[str]) -> None:
    assert broken_by([changed], checkout) == [path for path in EVERY if path in expected]


def test_every_change_of_the_branch_counts_whether_committed_or_not(tmp_path: Path) -> None:
    def git(*words: str) -> None:
        own = ("-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "commit.gpgSign=false")
        subprocess.run(["git", *own, *words], cwd=tmp_path, check=True, capture_output=True)

    git("init", "-b", "main")
    for name in ("old", "kept", "edited"):
        (tmp_path / name).write_text(name)
    git("add", ".")
    git("commit", "-m", "first")
    git("switch", "-c", "branch")
    (tmp_path / "committed").touch()
    git("add", ".")
    git("rm", "old")
    git("commit", "-m", "second")
    (tmp_path / "edited").write_text("anew")
    (tmp_path / "untracked").touch()

    assert sorted(changed_files(tmp_path)) == ["committed", "edited", "old", "untracked"]
