"""What to do about failures whose remedy is known. Pure."""

from __future__ import annotations

import re

NOT_FOUND = 127
"""A shell's exit code for a command that does not exist."""
NOT_EXECUTABLE = 126
PREEMPTED = 42
"""What TensorFlow's PreemptionCheckpointHandler exits with once it has saved."""

_LESS_MEMORY = "use a smaller batch for each replica, or fewer workers on {host}"
_FIND_FILE = "the file must be on {host} too: check `workdir` in the cluster file; `sync` sends a project"
_BY_TEXT = (
    (
        r"(?:ModuleNotFoundError: |: )No module named '?(?P<name>[\w.]+)",
        "install {name} for {python} on {host}, or name another `python` or `workdir` for it in the cluster file",
    ),
    (
        r"cannot run (?P<name>\S*python\S*): No such file",
        "name the Python of {host} that has TensorFlow as `python` in the cluster file; scripts/setup_host makes one",
    ),
    (r"cannot run \S+: No such file", "check the command's spelling, and `workdir` and PATH on {host}"),
    (r"cannot enter the working directory", "make that directory on {host}, or name another `workdir` for it"),
    (
        r"Collective ops must be configured at program startup",
        "create the MultiWorkerMirroredStrategy before anything else that uses TensorFlow in the program",
    ),
    (
        r"Could not start gRPC server|Address already in use",
        "another process on {host} has the port: end it, or give the host other `ports` (or none: any free port)",
    ),
    (
        r"Shape mismatch in the collective instance",
        "the workers differ in program or batch shape: start the same program everywhere, and drop incomplete batches",
    ),
    (
        r"unsupported type <?[^\n]*PerReplica|Invalid reduction dimension 0",
        "Keras 3 fails so under several workers: leave --no-keras-fix out, or create the strategy before the model",
    ),
    (r"MemoryError|OOM when allocating tensor|std::bad_alloc|CUDA_ERROR_OUT_OF_MEMORY", _LESS_MEMORY),
    (r"can't open file|FileNotFoundError", _FIND_FILE),
    (r"No space left on device|Disk quota exceeded", "make room on the disk of {host}"),
    (r"PermissionError", "check owner and mode of that path on {host}"),
)
_BY_EXIT_CODE = {
    NOT_FOUND: "the command does not exist on {host}: check its spelling, `workdir` and PATH there",
    NOT_EXECUTABLE: "the command cannot be run on {host}: check its mode (chmod +x) and its first line",
    PREEMPTED: "the program saved and left on a notice of preemption; with --max-restarts it goes on from there",
}


def for_text(text: str, host: str, python: str | None = None) -> str | None:
    """The remedy for what a failed program said; `python` is the interpreter that it was started with."""
    for pattern, remedy in _BY_TEXT:
        if found := re.search(pattern, text):
            interpreter = python or "the Python that runs the program"
            return remedy.format(host=host, python=interpreter, **found.groupdict())
    return None


def for_exit_code(exit_code: int | None, host: str) -> str | None:
    """The remedy for an exit code that has a meaning of its own."""
    return _BY_EXIT_CODE[exit_code].format(host=host) if exit_code in _BY_EXIT_CODE else None


def for_no_memory(host: str) -> str:
    """The remedy for a worker that the kernel ended to get its memory back."""
    return _LESS_MEMORY.format(host=host)
