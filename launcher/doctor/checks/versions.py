"""The Python that runs the workers, and the packages that it has: there, and the same everywhere."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping

from launcher.doctor.checks.odd_ones import odd_ones
from launcher.doctor.examination import Examination, HostExamination
from launcher.doctor.findings import Finding, Severity
from launcher.doctor.probing import NO_WORKDIR
from launcher.wording import listed

INSTALL = "install it there: {python} -m pip install tensorflow; or name the `python` of that host that has it"


def findings(examination: Examination) -> Iterator[Finding]:
    """Of these."""
    hosts = examination.reached
    for each in hosts:
        yield from _of_one(each)
    pythons = {each.name: each.answers.python.version for each in hosts if each.answers.python}
    yield from _different("python", "Python", pythons, Severity.WARNING)
    for package, name, severity in (
        ("tensorflow", "TensorFlow", Severity.ERROR),
        ("keras", "Keras", Severity.ERROR),
        ("tf-keras", "tf_keras", Severity.WARNING),
        ("numpy", "NumPy", Severity.WARNING),
    ):
        versions = {
            each.name: version for each in hosts if (version := (each.answers.packages or {}).get(package)) is not None
        }
        yield from _different(package, name, versions, severity)


def _of_one(each: HostExamination) -> Iterator[Finding]:
    severity = Severity.ERROR if each.runs_python else Severity.NOTE
    if each.refusal.startswith(NO_WORKDIR):
        yield Finding(
            Severity.ERROR,
            "workdir",
            (each.name,),
            each.refusal,
            "the workers start there",
            "make that directory, with the program in it, or name another `workdir`",
            "workdir",
        )
    elif each.refusal:
        yield Finding(
            severity,
            "python",
            (each.name,),
            f"the Python for its workers cannot be started: {each.refusal}",
            "no worker can be started there",
            "create it there (python3 -m venv, then pip install tensorflow), or name another `python`",
            "python",
        )
    packages, python = each.answers.packages, each.answers.python
    if packages is not None and python is not None and "tensorflow" not in packages:
        yield Finding(
            severity,
            "tensorflow",
            (each.name,),
            f"no TensorFlow in {python.executable} (Python {python.version})",
            "the workers end at their first import",
            INSTALL.format(python=shlex.quote(python.executable)),
            "python",
        )
    tensorflow = each.answers.tensorflow
    if tensorflow is not None and tensorflow.reason and "tensorflow" in (packages or {}):
        yield Finding(
            severity,
            "tensorflow_import",
            (each.name,),
            f"TensorFlow cannot be imported: {tensorflow.reason}",
            "the workers end at their first import",
            "what is said there tells what is missing; often a new virtual environment is the shortest way",
            "python",
        )


def _different(check: str, name: str, versions: Mapping[str, str], severity: Severity) -> Iterator[Finding]:
    usual, odd = odd_ones(versions)
    for host, version in odd.items():
        others = [each for each in versions if each not in odd]
        patch_only = release(version) == release(usual or "")
        yield Finding(
            Severity.WARNING if patch_only else severity,
            f"different_{check}",
            (host,),
            f"{name} {version}, while {listed(others)} {'has' if len(others) == 1 else 'have'} {usual}",
            "workers of different versions may fail, hang, or compute something else",
            "install the same version everywhere",
            "python",
        )


def release(version: str) -> list[str]:
    """What makes two versions different in more than their mistakes: 2.21 of 2.21.0."""
    return version.split(".")[:2]
