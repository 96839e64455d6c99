"""Which files of a project are sent: git says it, in a repository and outside of one."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from launcher.cluster.cluster import Sync
from launcher.cluster.file.keys import PATTERN
from launcher.errors import UsageError
from launcher.sync.project import read_project


@pytest.fixture(autouse=True)
def nobodys_git(need: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the configuration of who runs the tests."""
    need("git")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")


def git(root: Path, *arguments: str) -> None:
    subprocess.run(["git", "-C", root, *arguments], check=True, stdout=subprocess.DEVNULL)


def project(root: Path, files: str, rules: Mapping[str, str]) -> Path:
    """Make a project of empty files, with `.gitignore` files in some of its directories."""
    for name in files.split():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).touch()
    for directory, text in rules.items():
        (root / directory / ".gitignore").write_text(text)
    return root


def repository(root: Path, files: str, rules: Mapping[str, str]) -> Path:
    """The same as a repository of git's."""
    git(project(root, files, rules), "init", "--quiet")
    return root


def sent(root: Path, *exclude: str, gitignore: bool = True, left_out: tuple[Path, ...] = ()) -> list[str]:
    """What of it is sent, without `.gitignore` files."""
    files = read_project(Sync(root, exclude, gitignore), left_out).files
    return [file.path for file in files if not file.path.endswith(".gitignore")]


@pytest.mark.parametrize("made", [project, repository])
def test_rules_of_all_gitignore_files_hold_with_a_repository_and_without(
    tmp_path: Path, made: Callable[..., Path]
) -> None:
    root = made(tmp_path, "a.log b/a.log b/c d data/e", {".": "*.log\ndata/", "b": "!a.log\nc"})

    assert sent(root) == ["b/a.log", "d"]


def test_a_tracked_file_is_sent_whatever_the_rules_say(tmp_path: Path) -> None:
    root = repository(tmp_path, "weights.bin other.bin", {".": "*.bin"})
    git(root, "add", "--force", "weights.bin")

    assert sent(root) == ["weights.bin"]


def test_a_tracked_file_that_was_deleted_is_not_there(tmp_path: Path) -> None:
    root = repository(tmp_path, "a b/c d", {})
    git(root, "add", ".")
    (root / "a").unlink()
    (root / "b/c").unlink()
    (root / "b").rmdir()

    assert sent(root) == ["d"]


def test_nothing_is_sent_from_behind_a_link_in_the_place_of_a_tracked_directory(tmp_path: Path) -> None:
    root = repository(tmp_path, "a/b c/b", {})
    git(root, "add", ".")
    (root / "a/b").unlink()
    (root / "a").rmdir()
    (root / "a").symlink_to("c")

    assert sent(root) == ["a", "c/b"]


@pytest.mark.parametrize("tracked", [True, False], ids=["submodule", "repository inside"])
def test_a_repository_inside_belongs_to_the_project_by_its_own_rules(tmp_path: Path, tracked: bool) -> None:
    root = repository(tmp_path, "a", {".": "*.log"})
    inner = repository(root / "lib", "one.py two.tmp three.log", {".": "*.tmp"})
    git(inner, "add", ".")
    git(inner, "-c", "user.name=n", "-c", "user.email=e", "commit", "--quiet", "--message=m")
    if tracked:
        git(root, "-c", "advice.addEmbeddedRepo=false", "add", "lib")

    assert sent(root) == ["a", "lib/one.py", "lib/three.log"]
    assert sent(root, "/lib/one.py") == ["a", "lib/three.log"]


def test_rules_of_the_repository_around_hold(tmp_path: Path) -> None:
    root = repository(tmp_path, "top.log one/a.log one/b one/c one/d two/b", {".": "*.log\n/one/b\n"})
    (root / ".git/info/exclude").write_text("/one/d\n")

    assert sent(root / "one") == ["c"]


def test_outside_of_a_repository_no_rule_from_above_holds(tmp_path: Path) -> None:
    root = project(tmp_path, "one/a.log", {".": "*.log"})

    assert sent(root / "one") == ["a.log"]


def test_exclude_wins_over_every_rule(tmp_path: Path) -> None:
    root = project(tmp_path, "a.log b/a.log b/c d", {".": "*.log", "b": "!a.log"})

    assert sent(root, "!/a.log", "c", "b/*.log") == ["a.log", "d"]


def test_exclude_names_tracked_files_too(tmp_path: Path) -> None:
    root = repository(tmp_path, "a b/c d", {})
    git(root, "add", ".")

    assert sent(root, "b/") == ["a", "d"]


@pytest.mark.parametrize("directory", ["one", "[o] *"])
def test_exclude_begins_at_the_project_wherever_its_repository_does(tmp_path: Path, directory: str) -> None:
    repository(tmp_path, "a", {".": "*.log"})
    root = tmp_path / directory
    project(root, "a b c/a c/b x.log y.log", {})

    assert sent(root, "/a", "c/b", "!x.*", "!/c/x ") == ["b", "c/a", "x.log"]
    assert sent(root, directory.replace("[", "\\[").replace("*", "\\*"), "a") == ["b", "c/b"]


def test_rules_can_be_passed_over(tmp_path: Path) -> None:
    root = project(tmp_path, "a.log b", {".": "*.log"})

    assert sent(root, "b", gitignore=False) == ["a.log"]


@pytest.mark.parametrize("name", [".git/config", "b/.git/config", ".venv/x", "__pycache__/x", ".tf-launch-sync.json"])
def test_never_sent(tmp_path: Path, name: str) -> None:
    assert sent(repository(tmp_path, f"a {name}", {}), "!*", gitignore=False) == ["a"]


def test_a_virtual_environment_is_never_sent_whatever_its_name(tmp_path: Path) -> None:
    assert sent(project(tmp_path, "a env/pyvenv.cfg env/bin/python", {})) == ["a"]


def test_directories_of_runs_are_not_sent(tmp_path: Path) -> None:
    root = project(tmp_path, "a runs/1/run.json b/runs/c", {})

    assert sent(root, left_out=(root / "runs", root.parent)) == ["a", "b/runs/c"]


def test_a_link_into_the_project_is_sent_as_a_link(tmp_path: Path) -> None:
    root = project(tmp_path, "a b/c", {})
    (root / "b/link").symlink_to("../a")
    (root / "gone").symlink_to("nothing")

    files = read_project(Sync(root)).files
    assert {file.path: file.target for file in files if file.target} == {"b/link": "../a", "gone": "nothing"}


@pytest.mark.parametrize("target", ["../outside", "/etc/hostname", "out/x"])
def test_a_link_out_of_the_project_is_an_error_that_names_it(tmp_path: Path, target: str) -> None:
    root = project(tmp_path / "project", "a", {})
    (tmp_path / "outside").touch()
    (root / "out").symlink_to("..")
    (root / "link").symlink_to(target)

    with pytest.raises(UsageError, match=f"link is a link to {target}.*name it in sync.exclude"):
        read_project(Sync(root, ("/out",)))
    assert sent(root, "link", "out") == ["a"]


def test_pipes_and_sockets_are_passed_over(tmp_path: Path) -> None:
    os.mkfifo(project(tmp_path, "a", {}) / "pipe")

    assert sent(tmp_path) == ["a"]


def test_nothing_left_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"no file of the project is left to send; look at its \.gitignore files"):
        sent(project(tmp_path, "a", {".": "*"}))


def test_names_of_any_bytes_are_kept(tmp_path: Path) -> None:
    names = [b"\xff", b"a\nb", b"-x", b" ", b":(top)x", "é".encode()]
    for name in names:
        Path(os.fsdecode(tmp_path / os.fsdecode(name))).touch()

    files = read_project(Sync(tmp_path, ("nothing",))).files
    assert sorted(file.path.encode("utf-8", "surrogateescape") for file in files) == sorted(names)


def test_another_repository_that_the_environment_names_does_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = repository(tmp_path / "other", "x", {})
    monkeypatch.setenv("GIT_DIR", str(other / ".git"))
    monkeypatch.setenv("GIT_WORK_TREE", str(other))

    assert sent(project(tmp_path / "mine", "a", {})) == ["a"]


def test_a_repository_of_somebody_else_is_an_error_with_the_command_that_allows_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = repository(tmp_path, "a", {})
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")  # git's own tests make one this way
    monkeypatch.setattr("launcher.sync.git.USERS_CONFIGURATION", ("GIT_TEST_ASSUME_DIFFERENT_OWNER",))

    with pytest.raises(UsageError) as raised:
        sent(root)
    assert "dubious ownership" in str(raised.value)
    assert f"git config --global --add safe.directory {root}" in str(raised.value)


def test_a_broken_repository_is_an_error_that_names_it(tmp_path: Path) -> None:
    root = repository(tmp_path, "a", {})
    (root / ".git/HEAD").write_text("nothing")

    with pytest.raises(UsageError, match=re.escape(f"{root}: git cannot tell")):
        sent(root)


def test_a_directory_that_cannot_be_read_is_an_error_that_names_it(
    tmp_path: Path, need: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    need("setpriv")
    powerless = project(tmp_path / "bin", "git", {}) / "git"
    powerless.write_text(f'#!/bin/sh\nexec setpriv --bounding-set=-all --inh-caps=-all {shutil.which("git")} "$@"\n')
    powerless.chmod(0o700)
    if os.geteuid() == 0:  # who may read everything
        monkeypatch.setenv("PATH", f"{powerless.parent}:{os.environ['PATH']}")
    root = project(tmp_path / "project", "a b/c", {})
    (root / "b").chmod(0)
    try:
        with pytest.raises(UsageError, match="could not open directory 'b/'"):
            sent(root)
    finally:
        (root / "b").chmod(0o700)


def test_without_git_the_error_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(UsageError, match="apt-get install git"):
        sent(project(tmp_path, "a", {}))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        *[(text, True) for text in ("a", "!a", "[]a]", "a\\ ", "[[:alpha:]]b")],
        *[(text, False) for text in ("# a", " ", "[a", "a\\", "a\nb")],
    ],
)
def test_what_is_a_pattern(text: str, expected: bool) -> None:
    assert (re.fullmatch(PATTERN, text) is not None) == expected
