"""What `.gitignore` leaves out: examples, and git itself as the judge."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from launcher.cluster.cluster import Sync
from launcher.cluster.file.ignoring import is_pattern
from launcher.errors import UsageError
from launcher.sync.project import read_project

ONE = {
    # rules, what is in the project, what of it is sent (beside .gitignore)
    "nothing": ("", "a b/c", "a b/c"),
    "a name anywhere": ("*.ckpt", "a.ckpt b/a.ckpt b/c", "b/c"),
    "a path from the top": ("/a", "a b/a", "b/a"),
    "a path in the middle": ("b/*.log", "a.log b/a.log c/b/a.log", "a.log c/b/a.log"),
    "directories only": ("data/", "data/a b/data", "b/data"),
    "any number of directories": ("b/**/z", "b/z b/x/z b/x/y/z z", "z"),
    "all that is in a directory": ("b/**", "b/x b/y/z c", "c"),
    "brought back": ("*.txt\n!keep.txt", "a.txt keep.txt", "keep.txt"),
    "not brought back from a directory that is left out": ("b/\n!b/keep", "b/keep a", "a"),
    "brought back from one whose files are left out": ("b/*\n!b/keep", "b/keep b/a", "b/keep"),
    "only what is named": ("/*\n!/src/\n!/.gitignore", "a src/b data/c", "src/b"),
    "a directory brought back does not bring back what is left out in it": (
        "cache/\n*.tmp\n/*\n!/.gitignore\n!/src/",
        "a src/b src/c.tmp src/cache/d",
        "src/b",
    ),
    "comments, blanks, carriage returns": ("# a\r\n\r\nb \r\n", "a b c", "a c"),
    "quoted": ("\\#a\n\\!b\nc\\ ", "#a !b", ""),
    "sets": ("[ab]\n[!c]x\n[[:digit:]]y", "a b c cx dx 1y zy", "c cx zy"),
    "an open set matches nothing": ("[a", "a [a", "a [a"),
}


def project(root: Path, files: str, rules: Mapping[str, str]) -> Path:
    """Make a project of empty files, with `.gitignore` files in some of its directories."""
    for name in files.split():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).touch()
    for directory, text in rules.items():
        (root / directory / ".gitignore").write_text(text)
    return root


def sent(root: Path, *exclude: str, gitignore: bool = True, left_out: tuple[Path, ...] = ()) -> list[str]:
    """What of it is sent, without `.gitignore` files."""
    files = read_project(Sync(root, exclude, gitignore), left_out).files
    return [file.path for file in files if not file.path.endswith(".gitignore")]


@pytest.mark.parametrize(("rules", "files", "expected"), ONE.values(), ids=ONE)
def test_rules(tmp_path: Path, rules: str, files: str, expected: str) -> None:
    assert sorted(sent(project(tmp_path, files, {".": rules}))) == sorted(expected.split())


def test_rules_of_a_directory_win_over_those_above(tmp_path: Path) -> None:
    root = project(tmp_path, "a.log b/a.log b/c", {".": "*.log", "b": "!a.log\nc"})

    assert sent(root) == ["b/a.log"]


def test_rules_of_the_repository_around_hold(tmp_path: Path) -> None:
    root = project(tmp_path, "top.log one/a.log one/b one/c one/d two/b", {".": "*.log\n/one/b\n"})
    (root / ".git/info").mkdir(parents=True)
    (root / ".git/info/exclude").write_text("/one/d\n")

    assert sent(root / "one") == ["c"]


def test_outside_of_a_repository_no_rule_from_above_holds(tmp_path: Path) -> None:
    root = project(tmp_path, "one/a.log", {".": "*.log"})

    assert sent(root / "one") == ["a.log"]


def test_exclude_wins_over_every_rule(tmp_path: Path) -> None:
    root = project(tmp_path, "a.log b/a.log b/c d", {".": "*.log", "b": "!a.log"})

    assert sent(root, "!/a.log", "c", "b/*.log") == ["a.log", "d"]


def test_rules_can_be_passed_over(tmp_path: Path) -> None:
    root = project(tmp_path, "a.log b", {".": "*.log"})

    assert sent(root, "b", gitignore=False) == ["a.log"]


@pytest.mark.parametrize("name", [".git/config", "b/.git/config", ".venv/x", "__pycache__/x", ".tf-launch-sync.json"])
def test_never_sent(tmp_path: Path, name: str) -> None:
    assert sent(project(tmp_path, f"a {name}", {}), "!*", gitignore=False) == ["a"]


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
    names = [b"\xff", b"a\nb", b"-x", b" ", "é".encode()]
    for name in names:
        Path(os.fsdecode(tmp_path / os.fsdecode(name))).touch()

    files = read_project(Sync(tmp_path, ("nothing",))).files
    assert sorted(file.path.encode("utf-8", "surrogateescape") for file in files) == sorted(names)


@pytest.mark.parametrize(
    ("text", "expected"), [("a", True), ("!a", True), ("# a", False), (" ", False), ("[a", False), ("a\nb", False)]
)
def test_what_is_a_pattern(text: str, expected: bool) -> None:
    assert is_pattern(text) == expected


# ---- git as the judge
NAME = st.sampled_from(["a", "b", "a.c", "b.c", "keep", "[a]", "a b", "!x", "é"])
TREE = st.lists(st.lists(NAME, min_size=1, max_size=4).map("/".join), min_size=1, max_size=12)
PIECES = r"""
a b * ** *.c a.c keep ? a* **a *** é # \a \!x a\ a\\ \[a\]
[ab] [!a] [^b] []a] [!]a] [a-c] [c-a] [a-] [\]a] [/] [a [[:alpha:]] [[:alpha:]-z] [[:foo:]]
"""
PIECE = st.sampled_from([*PIECES.split(), " ", "a ", "\\ "])
PATTERN = st.builds(
    "{}{}{}{}".format,
    st.sampled_from(["", "", "!"]),
    st.sampled_from(["", "", "/"]),
    st.lists(PIECE, min_size=1, max_size=3).map("/".join),
    st.sampled_from(["", "", "/"]),
)
RULES = st.lists(PATTERN, min_size=1, max_size=6).map("\n".join)


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory, need: Callable[..., None]) -> Path:
    need("git")
    root = tmp_path_factory.mktemp("repository")
    git(root, "init", "--quiet")
    return root


def git(root: Path, *arguments: str) -> bytes:
    quiet = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    return subprocess.run(["git", "-C", root, *arguments], env=quiet, check=True, stdout=subprocess.PIPE).stdout


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=60)
@given(tree=TREE, top=RULES, below=RULES, where=st.integers(0))
def test_git_says_the_same(repository: Path, tree: list[str], top: str, below: str, where: int) -> None:
    for entry in repository.iterdir():
        if entry.name != ".git":
            shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
    for name in tree:
        path = repository / name
        if not any(parent.is_file() for parent in path.parents) and not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
    directories = sorted(path for path in repository.rglob("*") if path.is_dir() and ".git" not in path.parts)
    (repository / ".gitignore").write_text(top)
    if directories:
        (directories[where % len(directories)] / ".gitignore").write_text(below)

    expected = git(repository, "ls-files", "-z", "--others", "--exclude-standard").split(b"\0")[:-1]
    try:
        files = [file.path.encode() for file in read_project(Sync(repository)).files]
    except UsageError:
        files = []
    assert sorted(files) == sorted(expected)
