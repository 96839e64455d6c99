"""What a host finds out about itself, as `launch doctor` asks it."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from launcher.on_host.probe import program
from launcher.on_host.probe.answers import Gpu, Gpus, NetworkCard, ProgramFound
from launcher.on_host.probe.machine import addresses_of, gpus, network_card, packages, surroundings
from launcher.on_host.probe.output import Output

ENTRIES = {
    "a script": (["train.py", "-m", "x"], ("script", "train.py")),
    "options of Python": (["-u", "-X", "dev", "-Wignore", "-O", "train.py"], ("script", "train.py")),
    "a module": (["-m", "pkg.train", "-c"], ("module", "pkg.train")),
    "a module behind other letters": (["-um", "pkg.train"], ("module", "pkg.train")),
    "a module in the same word": (["-mpkg"], ("module", "pkg")),
    "a long option": (["--check-hash-based-pycs", "never", "train.py"], ("script", "train.py")),
    "code": (["-c", "print(1)", "train.py"], ("", "")),
    "an option that swallows an m": (["-Xm", "train.py"], ("script", "train.py")),
    "nothing": ([], ("", "")),
}


@pytest.mark.parametrize(("arguments", "found"), ENTRIES.values(), ids=ENTRIES)
def test_what_python_would_run_is_understood(arguments: Sequence[str], found: tuple[str, str]) -> None:
    assert program.entry(arguments) == found


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with a program in it."""
    files = {
        "train.py": "import data, json\nfrom model.cnn import build\nimport numpy, nowhere\n",
        "data.py": "def load():\n    import late\n",
        "late.py": "",
        "model/__init__.py": "",
        "model/cnn.py": "",
        "model/unused.py": "",
        "unrelated.py": "",
        "pkg/__init__.py": "",
        "pkg/__main__.py": "",
    }
    for name, text in files.items():
        path = tmp_path / "project" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    monkeypatch.chdir(tmp_path / "project")
    return tmp_path / "project"


def test_a_script_is_all_files_of_the_users_that_it_imports(project: Path) -> None:
    found = program.program([sys.executable, "train.py"], by_python=True)

    assert (found.path, found.reason) == (str(project / "train.py"), "")
    assert sorted(found.files) == [
        *("data.py", "late.py", "model/__init__.py", "model/cnn.py", "model/unused.py", "train.py")
    ]


def test_the_digests_are_the_same_wherever_the_project_is(project: Path, tmp_path: Path) -> None:
    here = program.program([sys.executable, "train.py"], by_python=True).files
    project.rename(tmp_path / "elsewhere")
    os.chdir(tmp_path / "elsewhere")

    assert program.program([sys.executable, "train.py"], by_python=True).files == here


def test_a_module_is_found_as_python_finds_it(project: Path) -> None:
    assert sorted(program.program(["python", "-m", "pkg"], by_python=True).files) == [
        "pkg/__init__.py",
        "pkg/__main__.py",
    ]
    assert program.program(["python", "-m", "json.tool"], by_python=True).reason == ""
    assert program.program(["python", "-m", "pkg.nothing"], by_python=True).reason == "No module named pkg.nothing"


def test_nothing_of_the_program_is_run(project: Path) -> None:
    (project / "pkg" / "__init__.py").write_text("raise SystemExit('imported')")

    assert program.program(["python", "-m", "pkg.__main__"], by_python=True).reason == ""


def test_a_script_that_is_missing_or_broken_is_told(project: Path) -> None:
    (project / "broken.py").write_text("def (")

    missing = program.program(["python", "nothing.py"], by_python=True)
    assert missing == ProgramFound(reason="nothing.py: No such file or directory")
    assert list(program.program(["python", "broken.py"], by_python=True).files) == ["broken.py"]


def test_modules_on_pythonpath_are_the_users_too(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "nowhere.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path / "lib")

    assert "nowhere.py" in program.program(["python", "train.py"], by_python=True).files


def test_a_directory_of_data_that_is_called_like_a_module_takes_no_time(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(program, "MOST_ENTRIES", 10)
    (project / "nowhere").mkdir()
    for number in range(30):
        (project / "nowhere" / f"{number}.py").touch()

    assert (
        len([name for name in program.program(["python", "train.py"], by_python=True).files if "nowhere" in name]) == 10
    )


def test_any_other_program_is_looked_for_on_the_path(project: Path) -> None:
    (project / "run.sh").touch(mode=0o755)

    assert program.program(["./run.sh"], by_python=False).reason == ""
    assert program.program(["sh"], by_python=False).path.endswith("/sh")
    assert program.program(["no-such-program"], by_python=False).reason == "there is no program no-such-program"


# ---- the output directory
def test_a_trial_makes_what_is_missing_and_removes_it_again(tmp_path: Path) -> None:
    root, output = str(tmp_path / "some" / "runs"), Output()

    assert output.room(root).there == str(tmp_path)
    assert output.unwritable(root, "marker") == ""
    assert output.seen({"a": "marker", "b": "other"}) == ["a"]
    output.clean()
    assert list(tmp_path.iterdir()) == []


def test_what_was_there_stays(tmp_path: Path) -> None:
    (tmp_path / "runs" / "earlier").mkdir(parents=True)
    output = Output()

    assert output.unwritable(str(tmp_path / "runs"), "marker") == ""
    output.clean()
    assert [path.name for path in (tmp_path / "runs").iterdir()] == ["earlier"]


def test_hosts_that_share_a_disk_leave_nothing_whoever_goes_first(tmp_path: Path) -> None:
    root, one, other = str(tmp_path / "some" / "runs"), Output(), Output()
    assert (other.unwritable(root, "b"), one.unwritable(root, "a")) == ("", "")
    assert one.seen({"host": "b"}) == ["host"]
    for each in (one, other):
        each.unmarked()
    for each in (one, other):
        each.clean()

    assert list(tmp_path.iterdir()) == []


def test_what_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    output = Output()

    assert (
        output.unwritable(str(tmp_path / "file" / "runs"), "m")
        == f"{os.strerror(errno.ENOTDIR)} ({tmp_path}/file/runs)"
    )
    output.clean()
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


# ---- the machine
def nvidia_smi(directory: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """A driver's program that says this."""
    path = directory / "nvidia-smi"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    monkeypatch.setenv("PATH", str(directory), prepend=os.pathsep)


def test_gpus_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = "0, NVIDIA H100 80GB HBM3, 81559, 4, 570.124.06\\n1, NVIDIA GB10, [N/A], [N/A], 570.124.06\\n"
    nvidia_smi(tmp_path, monkeypatch, f"printf '{rows}'")
    found = gpus()

    assert (found.driver, found.complaint) == ("570.124.06", "")
    assert found.devices == (Gpu(0, "NVIDIA H100 80GB HBM3", 81559, 4), Gpu(1, "NVIDIA GB10", 0, 0))


def test_a_driver_that_fails_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nvidia_smi(tmp_path, monkeypatch, "echo 'Failed to initialize NVML: Driver/library version mismatch'; exit 18")

    assert gpus().complaint == "Failed to initialize NVML: Driver/library version mismatch"
    assert gpus().devices == ()


def test_a_machine_without_a_driver_has_no_gpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))

    assert gpus() == Gpus()


def test_a_directory_without_anything_in_it_is_no_tensorflow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    (tmp_path / "tensorflow").mkdir()
    assert "tensorflow" not in packages()
    (tmp_path / "tensorflow" / "__init__.py").touch()
    assert packages()["tensorflow"] == "of unknown version"


def test_the_card_of_an_address_is_found() -> None:
    assert network_card("127.0.0.1").name == "lo"
    assert network_card("localhost").mtu > 0
    assert network_card("no.such.name.invalid") == NetworkCard()
    assert addresses_of("no-such-card") == []


def test_proxies_are_found_in_either_case(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://p:1")
    monkeypatch.setenv("grpc_proxy", "")

    assert surroundings().proxies == {
        name: value for name, value in os.environ.items() if name.lower().endswith("_proxy") and value
    }
    assert "HTTP_PROXY" in surroundings().proxies
