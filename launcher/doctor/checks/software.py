"""What the workers run, Python, its packages and the program: are they there, and the same everywhere? Pure."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from dataclasses import replace

from launcher.doctor.examination import Examination, HostExamination
from launcher.doctor.findings import ERROR, NOTE, WARNING, Finding, Severity, odd_ones
from launcher.doctor.probing import NO_WORKDIR
from launcher.wording import listed

NO_DIRECTORY = Finding(ERROR, "workdir", "workdir").because(
    "the workers start there",
    "make that directory, with the program in it, or name another `workdir`",
)
NO_PYTHON = Finding(ERROR, "python", "python").because(
    "no worker can be started there",
    "create it there (python3 -m venv, then pip install tensorflow), or name another `python`",
)
NO_TENSORFLOW = Finding(ERROR, "tensorflow", "python").because(
    "the workers end at their first import",
    "install it there: {python} -m pip install tensorflow; or name the `python` of that host that has it",
)
BROKEN_TENSORFLOW = Finding(ERROR, "tensorflow_import", "python").because(
    "the workers end at their first import",
    "what is said there tells what is missing; often a new virtual environment is the shortest way",
)
DIFFERENT_VERSION = Finding(ERROR, "different_", "python").because(
    "workers of different versions may fail, hang, or compute something else",
    "install the same version everywhere",
)
PACKAGES = (
    ("tensorflow", "TensorFlow", ERROR),
    ("keras", "Keras", ERROR),
    ("tf-keras", "tf_keras", WARNING),
    ("numpy", "NumPy", WARNING),
)
NO_PROGRAM = Finding(ERROR, "program", "workdir").because(
    "its workers could not be started",
    "put it there, or name the `workdir` that it is in",
)
DIFFERENT_PROGRAM = Finding(ERROR, "different_program", "workdir").because(
    "workers that run different programs hang in collective operations, or train something else without a word",
    "bring the same files to all hosts",
)


def pythons(examination: Examination) -> Iterator[Finding]:
    """The Python that runs the workers, and its packages."""
    hosts = examination.reached
    for each in hosts:
        for finding in _python_of(each):
            needed = each.runs_python or finding.check == NO_DIRECTORY.check
            yield finding if needed else replace(finding, severity=NOTE)
    versions = {each.name: each.answers.python.version for each in hosts if each.answers.python}
    yield from _different_versions("python", "Python", versions, WARNING)
    for package, name, severity in PACKAGES:
        found = {each.name: (each.answers.packages or {}).get(package) for each in hosts}
        versions = {host: version for host, version in found.items() if version}
        yield from _different_versions(package, name, versions, severity)


def _python_of(each: HostExamination) -> Iterator[Finding]:
    if each.refusal.startswith(NO_WORKDIR):
        yield NO_DIRECTORY.on(each.name, each.refusal)
    elif each.refusal:
        yield NO_PYTHON.on(each.name, f"the Python for its workers cannot be started: {each.refusal}")
    packages, python, tensorflow = each.answers.packages or {}, each.answers.python, each.answers.tensorflow
    if each.answers.packages is not None and python is not None and "tensorflow" not in packages:
        remedy = NO_TENSORFLOW.remedy.format(python=shlex.quote(python.executable))
        yield NO_TENSORFLOW.on(
            each.name, f"no TensorFlow in {python.executable} (Python {python.version})", remedy=remedy
        )
    if tensorflow is not None and tensorflow.reason and "tensorflow" in packages:
        yield BROKEN_TENSORFLOW.on(each.name, f"TensorFlow cannot be imported: {tensorflow.reason}")


def _different_versions(package: str, name: str, versions: Mapping[str, str], severity: Severity) -> Iterator[Finding]:
    usual, odd = odd_ones(versions)
    others = [host for host in versions if host not in odd]
    for host, version in odd.items():
        what = f"{name} {version}, while {listed(others)} {'has' if len(others) == 1 else 'have'} {usual}"
        patch_only = release(version) == release(usual or "")
        check = DIFFERENT_VERSION.check + package
        yield DIFFERENT_VERSION.on(host, what, check=check, severity=WARNING if patch_only else severity)


def release(version: str) -> list[str]:
    """Major and minor version: what differs beyond it is only fixes."""
    return version.split(".")[:2]


def programs(examination: Examination) -> Iterator[Finding]:
    """The program that the workers run."""
    files: dict[tuple[str, ...], dict[str, Mapping[str, str]]] = {}
    for each in examination.reached:
        program = each.answers.program
        if program is None or each.plan is None:
            continue
        if program.reason:
            yield NO_PROGRAM.on(each.name, f"the program is not there: {program.reason} (in {each.plan.workdir})")
        elif program.files:
            command = tuple(examination.cluster.command_of(each.plan.task))
            files.setdefault(command, {})[each.name] = program.files
    for of_hosts in files.values():
        yield from _different_files(of_hosts)


def _different_files(files: Mapping[str, Mapping[str, str]]) -> Iterator[Finding]:
    """`files`: for each host, the digest of each file."""
    differing: dict[str, list[str]] = {}
    missing: dict[str, list[str]] = {}
    for name in sorted({name for each in files.values() for name in each}):
        usual, odd = odd_ones({host: each.get(name) for host, each in files.items()})
        for host, digest in odd.items():
            (missing if None in (digest, usual) else differing).setdefault(host, []).append(name)
    for host, names in differing.items():
        yield DIFFERENT_PROGRAM.on(host, f"other content than elsewhere: {listed(names)}")
    for host, names in missing.items():
        what = f"files that are not on all hosts: {listed(names)}"
        yield DIFFERENT_PROGRAM.on(host, what, severity=WARNING, check="different_files")
