"""The process that `WarmTensorFlow` starts: it imports TensorFlow once, and forks."""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import runpy
import signal
import socket
import sys
import tempfile
import traceback
from pathlib import Path
from selectors import EVENT_READ, DefaultSelector
from types import TracebackType
from typing import Any, NoReturn

LARGEST_ORDER = 1 << 20


class Server:
    """Forks a child for each order, and tells whoever has ordered it of its end."""

    def __init__(self, listener: socket.socket) -> None:
        self._listener = listener
        self._ended, self._wake = socket.socketpair()
        self._children: dict[int, socket.socket] = {}
        self._ready = DefaultSelector()
        for each in (listener, self._ended, sys.stdin):
            self._ready.register(each, EVENT_READ)
        for each in (self._ended, self._wake):
            each.setblocking(False)
        signal.set_wakeup_fd(self._wake.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)

    def serve(self) -> dict[str, Any]:
        """Until stdin ends. Returns in the children only, to each its order."""
        while True:
            for key, _ in self._ready.select():
                if key.fileobj is self._listener:
                    order = self._fork()
                    if order is not None:
                        return order
                elif key.fileobj is self._ended:
                    self._tell_of_ended()
                elif key.fileobj is sys.stdin:
                    self._end()
                else:
                    self._whoever_ordered_has_ended(key.data)

    def _fork(self) -> dict[str, Any] | None:
        connection, _ = self._listener.accept()
        order, streams, *_ = socket.recv_fds(connection, LARGEST_ORDER, 3)
        pid = os.fork()
        if pid == 0:
            self._leave_to_the_parent(connection)
            for fd, stream in enumerate(streams):
                os.dup2(stream, fd)
        for stream in streams:
            os.close(stream)
        if pid == 0:
            return dict(json.loads(order))
        self._children[pid] = connection
        self._ready.register(connection, EVENT_READ, pid)
        connection.send(str(pid).encode())
        return None

    def _leave_to_the_parent(self, connection: socket.socket) -> None:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        self._ready.close()
        for each in (self._listener, self._ended, self._wake, connection, *self._children.values()):
            each.close()

    def _tell_of_ended(self) -> None:
        self._ended.recv(4096)
        for pid, connection in list(self._children.items()):
            found, status = os.waitpid(pid, os.WNOHANG)
            if found == pid:
                with contextlib.suppress(KeyError):
                    self._ready.unregister(connection)
                with self._children.pop(pid), contextlib.suppress(BrokenPipeError):
                    connection.send(str(os.waitstatus_to_exitcode(status)).encode())

    def _whoever_ordered_has_ended(self, pid: int) -> None:
        if pid in self._children:
            os.kill(pid, signal.SIGKILL)
            self._ready.unregister(self._children[pid])

    def _end(self) -> NoReturn:
        for pid in self._children:
            os.kill(pid, signal.SIGKILL)
        os._exit(0)


def import_tensorflow() -> None:
    """All of it but Keras, which it imports last."""
    sys.modules["keras"] = None  # type: ignore[assignment]  # which makes that fail
    importlib.import_module("tensorflow")
    del sys.modules["keras"]
    gc.freeze()


# ---- a child
def run(argv: list[str], env: dict[str, str], cwd: str) -> None:
    """Do what `python ARGV` does in this environment, in a session of its own."""
    os.setsid()
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(env)
    sys.dont_write_bytecode = bool(env.get("PYTHONDONTWRITEBYTECODE"))
    tempfile.tempdir = None  # TMPDIR may be another one
    importlib.import_module("numpy").random.seed()  # else all children draw the same; `random` sees to it itself
    sys.excepthook = without_this_file
    is_module = argv[0] == "-m"
    sys.argv = argv[1:] if is_module else argv
    paths = [str(Path(each).absolute()) for each in env.get("PYTHONPATH", "").split(os.pathsep) if each]
    sys.path[:0] = [cwd if is_module else str(Path(argv[0]).resolve().parent), *paths]
    with contextlib.suppress(ModuleNotFoundError):
        importlib.import_module("sitecustomize")
    import_keras()
    if is_module:
        runpy.run_module(argv[1], run_name="__main__", alter_sys=True)
    else:
        runpy.run_path(argv[0], run_name="__main__")


def import_keras() -> None:
    """As TensorFlow's own import does at its end."""
    tensorflow = importlib.import_module("tensorflow")
    directory_of = importlib.import_module("tensorflow.python.tools.module_util").get_parent_dir_for_name
    legacy = os.environ.get("TF_USE_LEGACY_KERAS") in ("true", "True", "1")
    names = ("tf_keras.api._v2.keras" if legacy else "keras.api._v2.keras", "keras._tf_keras.keras")
    tensorflow.__path__[:2] = [directory_of(name) for name in names]
    with contextlib.suppress(ImportError, AttributeError):
        importlib.import_module("tf_keras.src.optimizers" if legacy else "keras.src.optimizers")


def without_this_file(kind: type[BaseException], error: BaseException, place: TracebackType | None) -> None:
    """Print a traceback that begins with the program."""
    while place is not None and place.tb_frame.f_code.co_filename in (__file__, "<frozen runpy>"):
        place = place.tb_next
    traceback.print_exception(kind, error, place)


if __name__ == "__main__":
    import_tensorflow()
    run(**Server(socket.socket(fileno=int(sys.argv[1]))).serve())
