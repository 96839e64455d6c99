"""The file `checkpoint`, in which TensorFlow names the newest checkpoint of a directory: read, and made portable. Pure.

It is the text of a `CheckpointState` (`tensorflow/python/checkpoint/checkpoint_management.py`). A name in it is
relative to its directory, or absolute, as `tf.compat.v1.train.Saver` writes it: then it leads nowhere on another host.
"""

from __future__ import annotations

import re
from pathlib import PurePosixPath

STATE_FILE = "checkpoint"

LARGEST_STATE = 1 << 20
"""Bytes. Each checkpoint that it names takes a line; a larger file of that name is some program's own."""

_NEWEST = re.compile(rb'^([ \t]*model_checkpoint_path\s*:\s*")((?:[^"\\\n]|\\.)*)"', re.MULTILINE)
_NAMES = re.compile(
    rb'^([ \t]*(?:all_model_checkpoint_paths|model_checkpoint_path)\s*:\s*")((?:[^"\\\n]|\\.)*)"', re.MULTILINE
)
_ESCAPE = re.compile(rb"\\([0-7]{1,3}|.)")
_ESCAPED = {b"n": b"\n", b"r": b"\r", b"t": b"\t"}


def is_state(name: str, size: int) -> bool:
    """Whether a file of this name, with so many bytes, is such a file."""
    return name == STATE_FILE and size <= LARGEST_STATE


def newest_named(state: bytes, directory: str, root: str) -> str | None:
    """The prefix of the newest checkpoint, as a path below `root`.

    Args:
        state: the file's content.
        directory: where it lies below `root`; a relative name in it starts there.
        root: the output directory on the host; an absolute name in the file may lead there.

    Returns:
        None: it names none, or one that lies elsewhere.
    """
    found = _NEWEST.search(state)
    if found is None:
        return None
    named = PurePosixPath(_unescaped(found[2]).decode("utf-8", "surrogateescape"))
    if not named.is_absolute():
        named = PurePosixPath(root, directory, named)
    return str(named.relative_to(root)) if named.is_relative_to(root) and ".." not in named.parts else None


def portable(state: bytes, directory: str) -> bytes:
    """The text with each absolute name of what lies below the file's own directory made relative.

    Args:
        state: the file's content.
        directory: the absolute path of the directory where it was written.
    """
    top = f"{directory.rstrip('/')}/".encode("utf-8", "surrogateescape")

    def made_relative(found: re.Match[bytes]) -> bytes:
        name = _unescaped(found[2])
        return found[0] if not name.startswith(top) else b'%b%b"' % (found[1], _escaped(name.removeprefix(top)))

    return _NAMES.sub(made_relative, state)


def naming(state: bytes, newest: str) -> bytes:
    """The text with another checkpoint of its directory as the newest; of an empty text, one that names only this."""
    name = _escaped(newest.encode("utf-8", "surrogateescape"))
    if _NEWEST.search(state):
        return _NEWEST.sub(lambda found: b'%b%b"' % (found[1], name), state)
    return b'model_checkpoint_path: "%b"\nall_model_checkpoint_paths: "%b"\n' % (name, name)


def _unescaped(text: bytes) -> bytes:
    return _ESCAPE.sub(_unescaped_byte, text)


def _unescaped_byte(found: re.Match[bytes]) -> bytes:
    code = found[1]
    return bytes([int(code, 8) & 0xFF]) if code.isdigit() else _ESCAPED.get(code, code)


def _escaped(name: bytes) -> bytes:
    return b"".join(bytes([byte]) if 32 <= byte < 127 and byte not in b'"\\' else b"\\%03o" % byte for byte in name)
