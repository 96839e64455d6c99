"""`launch doctor` on this machine: what it says, what disturbs it not, and that it leaves nothing."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from rig.processes import command_of
from support.examining import Examined, doctors
from support.launching import await_true, marked_processes

Doctor = Callable[..., Examined]
Cluster = Callable[..., tuple[str, str]]


@pytest.fixture
def doctor(tmp_path: Path, environment: dict[str, str]) -> Iterator[Doctor]:
    """Start `launch doctor ARGUMENTS` in a directory of its own, which is empty afterwards."""
    here = tmp_path / "here"
    here.mkdir()
    with doctors(here, environment) as start:
        yield start
    assert list(here.iterdir()) == []


def hung_python(directory: Path) -> str:
    """A Python that says nothing and never ends."""
    path = directory / "hangs"
    path.write_text("#!/bin/sh\nwhile :; do sleep 1; done\n")
    path.chmod(0o755)
    return str(path)


def test_this_machine_is_well(doctor: Doctor) -> None:
    examined = doctor("--workers", "2")

    assert examined.exit_code == 0, examined.text
    heading, host, *_ = examined.text.splitlines()
    assert heading.split() == ["host", "address", "Python", "TensorFlow", "GPUs", "free", "disk", "clock"]
    assert host.split()[:3] == ["localhost", "127.0.0.1", ".".join(map(str, sys.version_info[:3]))]
    assert examined.text.endswith("a run can start.\n")


def test_hosts_are_examined_without_a_file(doctor: Doctor) -> None:
    examined = doctor("-H", "localhost:2")

    assert examined.exit_code == 0, examined.text
    assert examined.text.splitlines()[1].split()[0] == "localhost"


def test_a_program_that_is_missing_is_an_error(doctor: Doctor) -> None:
    examined = doctor("--workers", "1", "--json", "--", "python", "nothing.py")

    assert examined.exit_code == 3
    assert examined.errors() == {("program", ("localhost",))}


def test_it_needs_to_know_what_to_examine(doctor: Doctor) -> None:
    examined = doctor()

    assert examined.exit_code == 2
    assert "--cluster FILE, or --workers N" in examined.stderr


def test_it_explains_itself(doctor: Doctor) -> None:
    examined = doctor("--help")

    assert examined.exit_code == 0
    # The words, not the line: a checkout with a long path makes it wrap.
    assert "-m launcher doctor [OPTIONS]" in " ".join(examined.text.split())


def test_a_finding_names_the_line_of_the_cluster_file(doctor: Doctor, cluster: Cluster) -> None:
    examined = doctor(*cluster(python="/nowhere/python"), "--json")

    finding = examined.only("python")
    assert "cannot run /nowhere/python: No such file or directory" in finding["what"]
    assert finding["places"][0].endswith("cluster.yaml:1")


@pytest.mark.parametrize(("python", "told"), [("/bin/false", "exit code 1"), ("/bin/true", "is it a Python?")])
def test_what_is_no_python_is_told(doctor: Doctor, cluster: Cluster, python: str, told: str) -> None:
    examined = doctor(*cluster(python=python), "--json")

    assert told in examined.only("python")["what"]
    assert examined.record["hosts"][0]["room"], "another Python tells the rest"


def test_neither_noise_nor_modules_of_the_user_disturb_it(doctor: Doctor, cluster: Cluster, tmp_path: Path) -> None:
    noise = "import os\nprint('hello from sitecustomize')\nos.write(1, b'{\"python\": 3}\\n')\n"
    (tmp_path / "sitecustomize.py").write_text(noise)
    workdir = tmp_path / "project"
    workdir.mkdir()
    (workdir / "json.py").write_text("raise SystemExit('the wrong json')")
    (workdir / "train.py").write_text("import json")
    options = cluster(workdir=str(workdir), env={"PYTHONPATH": str(tmp_path)}, command=["train.py"])
    examined = doctor(*options, "--json")

    assert examined.errors() == set()
    assert sorted(examined.record["hosts"][0]["program"]["files"]) == ["json.py", "train.py"]


def test_gpus_that_are_not_shared_out_are_told(doctor: Doctor, tmp_path: Path) -> None:
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "nvidia-smi").write_text("#!/bin/sh\nprintf '0, H100, 81559, 4, 570\\n1, H100, 81559, 4, 570\\n'\n")
    (programs / "nvidia-smi").chmod(0o755)
    examined = doctor("--workers", "2", "--json", "--env", f"PATH={programs}:/usr/bin:/bin")

    assert examined.only("gpus_not_shared_out")["remedy"] == "write gpus: [0, 1]"
    assert examined.record["hosts"][0]["gpus"]["driver"] == "570"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_everything(
    doctor: Doctor, cluster: Cluster, tmp_path: Path, mark: str, number: signal.Signals
) -> None:
    examined = doctor(*cluster(python=hung_python(tmp_path)))
    await_true(lambda: any("hangs" in " ".join(command_of(each)) for each in marked_processes(mark)), "the start of it")
    examined.process.send_signal(number)

    assert examined.exit_code == 128 + number
    assert examined.text == ""
    assert marked_processes(mark) == []


def test_runs_that_others_could_exchange_are_a_warning_on_this_machine(doctor: Doctor, tmp_path: Path) -> None:
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    examined = doctor("--workers", "1", "--json", "--run-dir", str(tmp_path / "open" / "runs"), "--", "true")

    assert examined.errors() == set()
    assert examined.only("unsafe")["what"].startswith(f"{tmp_path}/open: any user of this host can put something else")
    assert "or name another `--run-dir`" in examined.only("unsafe")["remedy"]
    assert list((tmp_path / "open").iterdir()) == []


def test_a_directory_that_cannot_be_written_is_told(doctor: Doctor, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    examined = doctor("--workers", "1", "--json", "--run-dir", str(tmp_path / "file" / "runs"))

    assert examined.errors() == {("unwritable", ("localhost",))}
    assert "--run-dir DIR names another one" in examined.only("unwritable")["remedy"]
    assert json.dumps(examined.record)
