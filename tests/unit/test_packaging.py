"""What is installed is what is pinned, and a wheel holds all that the program reads."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).resolve().parents[2]
OLDEST_KERAS = ROOT / "tests" / "training" / "oldest-keras.txt"
RUN, TEST, CUDA = (ROOT / f"constraints{kind}.txt" for kind in ("", "-test", "-cuda"))
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def pins(path: Path) -> dict[str, Version]:
    """The pinned version of each package."""
    return {
        canonicalize_name(name): Version(version)
        for name, version in re.findall(r"^([A-Za-z0-9._-]+)==(\S+)", path.read_text(), re.MULTILINE)
    }


def requirements(*extras: str) -> list[str]:
    """What pyproject.toml asks for."""
    project = PYPROJECT["project"]
    optional = [line for extra in extras for line in project["optional-dependencies"][extra]]
    return [*PYPROJECT["build-system"]["requires"], *project["dependencies"], *optional]


@pytest.mark.parametrize(
    ("path", "wanted"),
    [
        *((RUN, line) for line in requirements()),
        *((TEST, line) for line in requirements("test", "dev")),
        *((CUDA, line) for line in requirements("cuda")),
    ],
)
def test_requirement_is_pinned_within_its_range(path: Path, wanted: str) -> None:
    requirement = Requirement(wanted)

    version = pins(path).get(canonicalize_name(requirement.name))

    assert version in requirement.specifier if version else False, (
        f"{wanted}: {version} in {path.name}; run scripts/pin"
    )


def test_the_oldest_keras_that_is_tested_is_the_oldest_that_is_allowed() -> None:
    [keras] = [Requirement(line) for line in requirements() if line.startswith("keras")]

    assert [Version(lower.version) for lower in keras.specifier] == [pins(OLDEST_KERAS)["keras"]]


@pytest.mark.parametrize("path", [RUN, TEST, CUDA, OLDEST_KERAS], ids=lambda path: path.name)
def test_every_pin_has_a_hash(path: Path) -> None:
    entries = re.split(r"^(?=[A-Za-z0-9])", path.read_text(), flags=re.MULTILINE)[1:]

    assert [entry.split()[0] for entry in entries if not re.search(r"--hash=sha256:[0-9a-f]{64}\b", entry)] == []


@pytest.mark.parametrize("path", [RUN, TEST, CUDA, OLDEST_KERAS], ids=lambda path: path.name)
def test_pins_name_no_place_to_download_from(path: Path) -> None:
    text = path.read_text()

    assert re.findall(r"^.*(?:://|^-|--index|--find-links|--trusted-host| @ ).*$", text, re.MULTILINE) == []


def test_tests_run_with_the_versions_that_users_run() -> None:
    assert pins(RUN).items() <= pins(TEST).items()


def test_hosts_with_gpus_run_the_same_versions_and_cuda() -> None:
    more = pins(CUDA).items() - pins(RUN).items()

    assert pins(RUN).items() <= pins(CUDA).items()
    assert {name.partition("-")[0] for name, _ in more} == {"nvidia"}


def test_wheel_holds_every_file_of_both_packages(tmp_path: Path) -> None:
    files = {
        str(path.relative_to(ROOT))
        for package in ("launcher", "training")
        for path in (ROOT / package).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }

    subprocess.run([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", tmp_path], cwd=ROOT, check=True)

    (wheel,) = tmp_path.glob("*.whl")
    assert files <= set(zipfile.ZipFile(wheel).namelist())
