"""Python processes that begin with TensorFlow imported: children of one that has imported it once.

TensorFlow's import takes some seconds of the processor, and a process that has just imported it has one thread: what
it forks runs on as if it had imported TensorFlow itself. Keras is imported in each child, as the last thing that
TensorFlow's import does: the launcher's bootstrap, other versions of Keras and TF_USE_LEGACY_KERAS work as ever.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

from support.warm_python import order

OBEYED = {"PYTHONPATH", "PYTHONUNBUFFERED", "PYTHONDONTWRITEBYTECODE"}
"""Python's own variables that a child obeys; with others a program needs a Python that it starts with."""
SERVER, FRONT = (str(Path(__file__).with_name(name)) for name in ("tensorflow_server.py", "warm_python.py"))


class WarmTensorFlow:
    """A process with TensorFlow, for the length of a test session, and what it forks."""

    def __init__(self) -> None:
        self._directory = tempfile.TemporaryDirectory(prefix="warm-")
        self._place = str(Path(self._directory.name, "orders"))
        own = {key: value for key, value in os.environ.items() if not key.startswith(("TF_", "LAUNCH_", "PYTHON"))}
        own |= {"TF_CPP_MIN_LOG_LEVEL": "2", "CUDA_VISIBLE_DEVICES": "-1", "PYTHONUNBUFFERED": "1"}
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
            listener.bind(self._place)
            listener.listen()
            self._process = subprocess.Popen(
                [sys.executable, "-P", SERVER, str(listener.fileno())],
                env=own,
                pass_fds=[listener.fileno()],
                stdin=subprocess.PIPE,  # which ends with this process
                start_new_session=True,
            )

    @property
    def python(self) -> list[str]:
        """What to put in the place of `python` in a command that somebody else starts."""
        return [sys.executable, "-I", "-S", FRONT, self._place]

    def start(self, argv: Sequence[str], env: Mapping[str, str], cwd: Path, output: IO[bytes]) -> WarmProcess:
        """Run `python ARGV` in a session of its own, where that is a script or `-m` and a module."""
        with Path(os.devnull).open("rb") as nothing:
            streams = [nothing.fileno(), output.fileno(), output.fileno()]
            return WarmProcess(*order(self._place, list(argv), dict(env), str(cwd), streams))

    def close(self) -> None:
        """End the process, and what is left of its children."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()
        self._directory.cleanup()


class WarmProcess:
    """A child of the process with TensorFlow: what tests use of `subprocess.Popen`."""

    def __init__(self, connection: socket.socket, pid: int) -> None:
        self.pid = pid
        self._connection = connection
        self._code: int | None = None

    def wait(self, timeout: float | None = None) -> int:
        """Its exit code; negative for a signal.

        Raises:
            subprocess.TimeoutExpired: it runs for longer.
        """
        if self._code is None:
            self._connection.settimeout(timeout)
            try:
                self._code = int(self._connection.recv(100))
            except (TimeoutError, BlockingIOError):
                raise subprocess.TimeoutExpired(FRONT, timeout or 0) from None
            self._connection.close()
        return self._code

    def kill(self) -> None:
        if self._code is None:
            os.kill(self.pid, signal.SIGKILL)


def obeys(env: Mapping[str, str]) -> bool:
    """Whether a child can do what Python would in this environment."""
    return {key for key in env if key.startswith("PYTHON")} <= OBEYED
