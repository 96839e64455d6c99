"""`liar.py LIE COMMAND...` runs an agent, and changes what it tells of its files on the way."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from launcher.on_host.agent.fields import as_json
from launcher.on_host.agent.framing import GREETING, Decoder, frame

Frame = tuple[dict[str, Any], bytes]
MB = 1 << 20


def told(kind: str, head: dict[str, Any], body: bytes) -> Iterable[Frame]:
    """What becomes of one frame."""
    name = head["message"]
    if name == "FilePiece":
        yield from piece(kind, head, body)
    elif name == "FilesListed" and head["files"]:
        yield listed(kind, head), body
        if kind == "list without end":
            yield from ((head | {"files": [[f"{n}/{m}/{LONG}", 1, 1] for m in range(400)]}, b"") for n in range(10**7))
    elif name == "FileSent" and kind == "time that was sent":
        yield head | {"mtime_ns": 2**80}, body
    else:
        yield head, body


def piece(kind: str, head: dict[str, Any], body: bytes) -> Iterable[Frame]:
    if kind == "more than it said":
        yield from ((head | {"offset": n * MB}, bytes(MB)) for n in range(300))
    elif kind == "the beginning again":
        yield from ((head | {"offset": 0}, body) for _ in range(10**7))
    elif kind == "nothing again":
        yield from ((head, b"") for _ in range(10**7))
    elif kind == "a gap":
        yield head | {"offset": head["offset"] + 1}, body
    else:
        yield head, body


def listed(kind: str, head: dict[str, Any]) -> dict[str, Any]:
    files = head["files"]
    changed = {
        "size": [[path, 2**62, mtime] for path, _, mtime in files],
        "less than nothing": [[path, -1, mtime] for path, _, mtime in files],
        "time": [[path, size, 2**80] for path, size, _ in files],
        "names": [*files, *([name, 3, 1] for name in NAMES)],
        "no name": [*files, [5, 5, 5]],
    }
    return head | {
        "files": changed.get(kind, files),
        "links": ["\x1b]0;evil\x07\nlink"] if kind == "names" else head["links"],
        "unreadable": [["x", "\x1b]0;evil\x07 why\n[launch] done"]] if kind == "names" else head["unreadable"],
    }


LONG = "/".join(["n" * 200] * 19)
NAMES = [
    "../../../../OUTSIDE",
    "/tmp/OUTSIDE",
    "export/../../OUTSIDE",
    "export/\ud800x",
    "export/a",
    "export/a/b",
    "export/a/b/c",
    "export/" + "n" * 5000,
]


def main(lie: str, *command: str) -> None:
    agent = subprocess.Popen(command, stdout=subprocess.PIPE, bufsize=0)
    assert agent.stdout is not None
    said = b""
    while GREETING not in said and (more := os.read(agent.stdout.fileno(), MB)):
        said += more
    tell(said)
    decoder = Decoder()
    while data := os.read(agent.stdout.fileno(), MB):
        for head, body in decoder.feed(data):
            for lie_head, lie_body in told(lie, head, body):
                tell(frame(as_json(lie_head), lie_body))


def tell(data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(1, rest) :]


if __name__ == "__main__":
    main(*sys.argv[1:])
