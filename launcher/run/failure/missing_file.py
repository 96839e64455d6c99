"""What to do about a file that is not there. It depends on whether it was read or written, and on which host. Pure."""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Sequence
from typing import Literal

from launcher.cluster.defaults import LOCALHOST
from launcher.run.failure.failure import Evidence

_SCRIPT = re.compile(r"can't open file '[^'\n]*': \[Errno 2\]")
"""Python's own words about the script that it is to run."""
_PATHS = (
    re.compile(r"FileNotFoundError: \[Errno 2\] No such file or directory: '(?P<path>[^'\n]+)'(?!\s*->)"),
    re.compile(r"FileNotFoundError: \[Errno 2\] Unable to[^\n]{0,500}? name = '(?P<path>[^'\n]+)'"),
    re.compile(r"NotFoundError: [^\n]{0,500}?(?<= )(?P<path>/[^\s;]+); No such file or directory"),
)
_MODE = re.compile(r"""\bopen\([^\n]{0,200}(?:,\s*|\bmode=)["'](?P<mode>[rwax])[bt+]{0,2}["']""")
_READS = re.compile(
    r"\bopen\([^,]{0,300}\)|\b(?:os\.)?(?:listdir|scandir)\(|Unable to synchronously open|IteratorGetNext|ReadFile"
)
_WRITES = re.compile(
    r"\b(?:mkdir|makedirs|save|save_weights|save_model|savez|savefig|export|to_csv|to_json|write_text|write_bytes)\("
    r"|Unable to synchronously create|RecordWriter|recursive_create_dir"
)
_NEAREST = 6
"""Lines of a traceback above its exception, which quote the call that failed."""


def for_missing_file(seen: Evidence) -> str | None:
    """The remedy for a file that is not there; None: none is sure."""
    text, host = seen.text, seen.host
    if _SCRIPT.search(text):
        return _where_the_script_lies(host)
    found = next(filter(None, (pattern.search(text) for pattern in _PATHS)), None)
    if found is None:
        return None
    wanted_to = _purpose(text, seen.calls)
    path = found["path"]
    directory = posixpath.dirname(path.rstrip("/"))
    if wanted_to == "write" and directory:
        return f"make the directory {shlex.quote(directory)} on {host} before the program writes there"
    if wanted_to == "read" and host != LOCALHOST:
        return (
            f"{shlex.quote(path)} must be on {host}, too: copy it there, or let `sync` in the cluster file send it "
            "with the project; a relative path begins at `workdir`"
        )
    return None


def _where_the_script_lies(host: str) -> str:
    if host == LOCALHOST:
        return "check its spelling; a relative path begins at `workdir`, or else where `launch` was called"
    return f"the file must be on {host}, too: `sync` in the cluster file sends the project; check `workdir` there"


def _purpose(text: str, calls: Sequence[str]) -> Literal["read", "write"] | None:
    """What the innermost call that tells it wanted with the file; None: none of them tells."""
    for line in [text[:1000], *reversed(calls[-_NEAREST:])]:
        if opened := _MODE.search(line[:300]):
            return "read" if opened["mode"] == "r" else "write"
        if _WRITES.search(line):
            return "write"
        if _READS.search(line):
            return "read"
    return None
