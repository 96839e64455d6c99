"""What a plan must know of the machine that the launcher runs on."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from launcher.cluster_file import ClusterFile
from launcher.plan import HostContext, KerasFix

PACKAGE = Path(__file__).resolve().parent


def local_contexts(file: ClusterFile, directory: Path, fix_keras: bool) -> dict[str, HostContext]:
    """What a plan needs to know of this machine."""
    fix = keras_fix() if fix_keras else None
    context = HostContext(
        python=sys.executable,
        workdir=str(Path.cwd()),
        cpus=len(os.sched_getaffinity(0)),
        output_dir=str(directory / "chief"),
        run_dir=str(directory),
        environment=os.environ,
        keras_fix=fix,
    )
    return {host.name: context for host in file.hosts}


def keras_fix() -> KerasFix | None:
    """Where the Keras fix lies beside this package, if it is installed."""
    module = PACKAGE.parent / "training" / "keras_multiworker.py"
    return KerasFix(str(PACKAGE / "bootstrap"), str(module)) if module.is_file() else None
