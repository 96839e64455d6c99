"""What to do about failures whose remedy is known. A remedy that may not fit is left out. Pure."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

from launcher.caller.called_as import launch_command
from launcher.cluster.defaults import LOCALHOST
from launcher.cluster.spec import Task
from launcher.hosts.shortage import for_shortage
from launcher.run.failure.failure import Evidence, Runtime
from launcher.run.failure.keras2 import REMEDIES as KERAS_2
from launcher.run.failure.keras_fix import for_keras_under_several_workers
from launcher.run.failure.missing_file import for_missing_file

NOT_FOUND = 127
"""A shell's exit code for a command that does not exist."""
NOT_EXECUTABLE = 126
PREEMPTED = 42
"""What TensorFlow's PreemptionCheckpointHandler exits with once it has saved."""
LAST_WORDS = 3
"""Lines at the end of a log that tell why a program ended which left no traceback."""

_LESS_MEMORY = "use a smaller batch for each replica, read the data piece by piece, or start fewer workers on {host}"
_IN_FRONT = "put the program that reads it in front (like `python {name}` or `sh {name}`)"
_NAME_PYTHON = (
    "begin the command with `python`, and name the one of {host} that has TensorFlow as `python` in the cluster file"
)
_BY_TEXT = (
    (
        r"(?:ModuleNotFoundError: |: )No module named '?(?P<name>\w+)'?(?!\S)",
        "install {name} for {python} on {host}, or run the program with another Python; a module of your own must lie "
        "beside the script there, or on PYTHONPATH",
    ),
    (
        r"cannot run (?P<name>(?:\S*/)?python[\d.]*): No such file or directory$",
        _NAME_PYTHON,
    ),
    (
        r"cannot run .{1,1000}: No such file or directory$",
        "check the command's spelling, and `workdir` and PATH on {host}",
    ),
    (
        r"cannot run (?P<name>.{1,1000}): Permission denied \(it is not executable\)",
        f"chmod +x {{name}} on {{host}}, or {_IN_FRONT}",
    ),
    (
        r"cannot run (?P<name>.{1,1000}): Exec format error \(its first line has no",
        f"give {{name}} a first line that names what reads it (like #!/bin/sh), or {_IN_FRONT}",
    ),
    (
        r"cannot enter the working directory (?P<name>.{1,1000}): No such file",
        "make that directory on {host}, or name another `workdir` for it",
    ),
    (
        r"Collective ops must be configured at program startup",
        "create the MultiWorkerMirroredStrategy before anything else that uses TensorFlow in the program",
    ),
    (
        r"Could not start gRPC server",
        "the port that the program gave TensorFlow is taken on {host}: start one server a process, at its own address "
        "in TF_CONFIG (with `hold_ports: false` another program may have taken that)",
    ),
    (
        r"OSError: \[Errno 98\] Address already in use",
        "the port that the program opens is taken on {host}; workers of one host need a port each",
    ),
    (
        r"Shape mismatch in the collective instance",
        "the workers differ in program or batch shape: start the same program everywhere, and drop incomplete batches",
    ),
    (
        r"Mixing different tf\.distribute\.Strategy objects",
        "create the model, its optimizer and metrics inside strategy.scope()",
    ),
    (r"\b(?:_ArrayM|M)emoryError\b|OOM when allocating tensor|std::bad_alloc|CUDA_ERROR_OUT_OF_MEMORY", _LESS_MEMORY),
    (r"No space left on device|Disk quota exceeded", "make room on {host}, where the program writes"),
    (
        r"PermissionError: \[Errno 13\] Permission denied: '(?P<name>[^'\n]+)'(?!\s*->)",
        "check owner and mode of {name} on {host}, and of the directories above it",
    ),
)
_INSIDE_KERAS = (
    (
        # https://github.com/keras-team/keras/issues/18624
        r"pass this dataset to ClusterCoordinator\.create_per_worker_dataset"
        r"|Cannot get the cardinality of a dataset that is not built",
        "Keras 3 cannot fit on parameter servers, legacy Keras (tf_keras) can: `{python} -m pip install tf_keras` on "
        "{host}, in the version of its TensorFlow, then `{launch} --keras 2 ...`; or schedule the steps yourself, with "
        "ClusterCoordinator",
    ),
)
"""What a program of the user's may cause in another way, too: only where Keras 3 was called."""
_KERAS_3 = "/keras/src/"
_BEHIND_SSH = (
    (
        r"cannot run (?P<name>(?:\S*/)?python[\d.]*): No such file or directory$",
        f"{_NAME_PYTHON}; scripts/setup_host makes one",
    ),
)
_BY_EXIT_CODE = {
    NOT_FOUND: (
        r": (?:command )?not found|No such file or directory$",
        "the command does not exist on {host}: check its spelling, `workdir` and PATH there",
    ),
    NOT_EXECUTABLE: (
        r"Permission denied|[Cc]annot execute|Exec format error|bad interpreter",
        "the command cannot be run on {host}: check its mode (chmod +x) and its first line (#!)",
    ),
    PREEMPTED: (
        r"[Pp]reempt|[Tt]ermination",
        "the program saved and left on a notice of preemption; with --max-restarts it goes on from there",
    ),
}
"""What the program must have said, too: any program may exit with any code."""


def for_failed_program(seen: Evidence) -> str | None:
    """The remedy for what a program said of its failure."""
    sure = for_shortage(seen.text, seen.calls, seen.host) or for_keras_under_several_workers(seen)
    if sure:
        return sure
    known: tuple[tuple[str, str], ...] = (
        *(_BEHIND_SSH if seen.host != LOCALHOST else ()),
        *(_INSIDE_KERAS if any(_KERAS_3 in call for call in seen.calls) else ()),
        *_BY_TEXT,
        *KERAS_2,
    )
    for pattern, remedy in known:
        if found := re.search(pattern, seen.text, re.MULTILINE):
            python = seen.runtime.python or "the Python that runs the program"
            words = {"host": seen.host, "python": python, "launch": launch_command()}
            # What was captured is the program's own word: inside a command it must stay one word.
            return remedy.format_map(words | {key: shlex.quote(word) for key, word in found.groupdict().items()})
    return for_missing_file(seen)


def for_last_words(lines: Sequence[str], exit_code: int | None, host: str, runtime: Runtime) -> str | None:
    """The remedy for a program that ended without a traceback."""
    said, remedy = _BY_EXIT_CODE.get(exit_code or 0, ("", None))
    text = "\n".join(lines)
    if short := for_shortage(text, (), host):
        return short
    if remedy is not None and re.search(said, text, re.MULTILINE):
        return remedy.format(host=host)
    return for_failed_program(Evidence("\n".join(lines[-LAST_WORDS:]), host, runtime))


def for_two_of(task: Task) -> str:
    """The remedy for two processes with the name of one task."""
    return (
        f"TensorFlow saw two processes called {task}. Either a child process has inherited TF_CONFIG and starts "
        "TensorFlow, too (take the variable out of its environment), or the program sets a TF_CONFIG that names one "
        "task everywhere"
    )


def for_full_log_disk(host: str) -> str:
    """The remedy for a worker whose last words may be lost, and may have told of the same disk."""
    return f"make room on {host}: the disk of its log is full, so its last words may be missing"


def for_no_memory(host: str) -> str:
    """The remedy for a worker that the kernel ended to get its memory back."""
    return _LESS_MEMORY.format(host=host)
