"""A program that is not there is refused only where that is sure."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from launcher.cluster.cluster import Cluster, Host, Sync
from launcher.cluster.defaults import PROJECTS
from launcher.cluster.host_list import local_cluster
from launcher.errors import UsageError
from launcher.run.missing_program import program_file, refuse_missing_programs

LOCAL = local_cluster(2)


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, with a few files."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "src").mkdir()
    for name in ("train.py", "run.sh", "src/model.py"):
        (tmp_path / name).touch()
    return tmp_path


@pytest.mark.parametrize(
    ("command", "name"),
    [
        (["python", "train.py", "x.py"], "train.py"),
        (["python3", "-u", "-OO", "train"], "train"),
        (["/usr/bin/python3.11", "src/train.py"], "src/train.py"),
        (["train.py"], "train.py"),
        (["./run.sh", "x.py"], "./run.sh"),
        (["/opt/train"], "/opt/train"),
        (["python", "-m", "train"], None),
        (["python", "-c", "import x"], None),
        (["python", "-W", "error", "train.py"], None),
        (["python", "-"], None),
        (["python"], None),
        (["python", "train_{index}.py"], None),
        (["sh", "-c", "python made_before.py"], None),
        (["env", "A=1", "python", "train.py"], None),
        (["train"], None),
    ],
)
def test_the_file_that_a_command_names(command: list[str], name: str | None) -> None:
    assert program_file(command) == name


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("tarin.py", "did you mean train.py?"),
        ("src/modle.py", "did you mean src/model.py?"),
        ("./rum.sh", "did you mean ./run.sh?"),
        ("other/x.py", "there is no such file in {here}, where the tasks of localhost start"),
        ("train.py/x.py", "there is no such file in"),
        ("/no/such/file.py", "/no/such/file.py: no such file"),
    ],
)
def test_a_file_that_is_not_there_is_told_with_the_nearest_name(here: Path, word: str, said: str) -> None:
    with pytest.raises(UsageError) as refused:
        refuse_missing_programs(LOCAL._replace(command=("python", word)))

    assert said.format(here=here) in str(refused.value)


@pytest.mark.parametrize("command", [("train.py",), ("python", "src"), ("./run.sh",), ("no-such-program",)])
def test_what_is_there_or_may_be_is_let_through(command: tuple[str, ...]) -> None:
    refuse_missing_programs(LOCAL._replace(command=command))


def test_the_directory_is_where_the_tasks_start(here: Path) -> None:
    (host,) = LOCAL.hosts
    file = LOCAL._replace(hosts=(replace(host, workdir=str(here / "src")),))

    refuse_missing_programs(file._replace(command=("model.py",)))
    with pytest.raises(UsageError):
        refuse_missing_programs(file._replace(command=("train.py",)))


def test_a_type_of_task_is_asked_for_its_own_program() -> None:
    with pytest.raises(UsageError, match=r"ps\.py"):
        refuse_missing_programs(LOCAL._replace(command=("train.py",), per_task={"worker": ("ps.py",)}))


def behind_ssh(here: Path, *command: str, workdir: str | None, sync: bool = True) -> Cluster:
    host = Host("gpu-a", LOCAL.hosts[0].tasks, workdir=workdir)
    return Cluster("x", (host,), command, sync=Sync(here) if sync else None)


def test_a_project_that_is_sent_must_have_the_program(here: Path) -> None:
    with pytest.raises(UsageError, match=r"the project that `sync` sends; did you mean train\.py\?"):
        refuse_missing_programs(behind_ssh(here, "python", "trian.py", workdir=f"{PROJECTS}/x-1234"))


@pytest.mark.parametrize(
    ("word", "workdir", "sync"),
    [
        ("trian.py", "~/project", True),
        ("/opt/trian.py", f"{PROJECTS}/x-1234", True),
        ("../trian.py", f"{PROJECTS}/x-1234", True),
        ("trian.py", None, False),
    ],
)
def test_what_a_host_behind_ssh_may_have_is_let_through(here: Path, word: str, workdir: str | None, sync: bool) -> None:
    refuse_missing_programs(behind_ssh(here, "python", word, workdir=workdir, sync=sync))
