"""The Python that runs the workers, and the packages that it has: there, and the same everywhere."""

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
DIFFERENT = Finding(ERROR, "different_", "python").because(
    "workers of different versions may fail, hang, or compute something else",
    "install the same version everywhere",
)
PACKAGES = (
    ("tensorflow", "TensorFlow", ERROR),
    ("keras", "Keras", ERROR),
    ("tf-keras", "tf_keras", WARNING),
    ("numpy", "NumPy", WARNING),
)


def findings(examination: Examination) -> Iterator[Finding]:
    hosts = examination.reached
    for each in hosts:
        for finding in _on(each):
            needed = each.runs_python or finding.check == NO_DIRECTORY.check
            yield finding if needed else replace(finding, severity=NOTE)
    pythons = {each.name: each.answers.python.version for each in hosts if each.answers.python}
    yield from _different("python", "Python", pythons, WARNING)
    for package, name, severity in PACKAGES:
        found = {each.name: (each.answers.packages or {}).get(package) for each in hosts}
        yield from _different(package, name, {host: version for host, version in found.items() if version}, severity)


def _on(each: HostExamination) -> Iterator[Finding]:
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


def _different(package: str, name: str, versions: Mapping[str, str], severity: Severity) -> Iterator[Finding]:
    usual, odd = odd_ones(versions)
    others = [host for host in versions if host not in odd]
    for host, version in odd.items():
        what = f"{name} {version}, while {listed(others)} {'has' if len(others) == 1 else 'have'} {usual}"
        patch_only = release(version) == release(usual or "")
        yield DIFFERENT.on(host, what, check=DIFFERENT.check + package, severity=WARNING if patch_only else severity)


def release(version: str) -> list[str]:
    """What makes two versions different in more than their mistakes: 2.21 of 2.21.0."""
    return version.split(".")[:2]
