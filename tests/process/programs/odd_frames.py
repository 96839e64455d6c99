"""`odd_frames.py MODE COMMAND...` runs an agent, and changes one thing in what it tells on the way."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from launcher.on_host.agent.fields import PART, as_json
from launcher.on_host.agent.framing import FRAME, GREETING, Decoder, frame

Head = dict[str, Any]
MB = 1 << 20


def encode(head: Head, body: bytes = b"") -> bytes:
    """A frame with any head."""
    return frame(as_json(head), body)


def fields(event: str, **changed: Any) -> tuple[str, Callable[[Head, bytes], Iterable[bytes]]]:
    """An event with other values in these fields."""
    return event, lambda head, body: [encode({**head, **changed}, body)]


def instead(event: str, *frames: bytes) -> tuple[str, Callable[[Head, bytes], Iterable[bytes]]]:
    """Something else in place of an event."""
    return event, lambda *_: frames


def before(event: str, *frames: bytes) -> tuple[str, Callable[[Head, bytes], Iterable[bytes]]]:
    """Something else in front of an event."""
    return event, lambda head, body: [*frames, encode(head, body)]


def told(kind: str, **values: Any) -> bytes:
    return encode({"message": kind, "task": "worker-0", **values})


SPACES = b" " * MB
MODES = {
    "huge-head": instead("Ready", FRAME.pack(0xFFFFFFFF, 0), *[SPACES] * 700),
    "nest": instead("Ready", frame(b"[" * 200_000)),
    "list": instead("Ready", frame(b"[1,2]")),
    "no-facts": instead("Ready", frame(b'{"message": "Ready"}')),
    "python": fields("Ready", python=5),
    "twice": ("Ready", lambda head, body: [encode(head, body)] * 2),
    "ports": fields("Reserved", ports={"worker-0": "1; rm"}),
    "unknown": before("Started", told("whatever")),
    "early-log": before("Reserved", told("LogPiece", offset=0)),
    "task": fields("LogPiece", task="../../x-0"),
    "offset-high": fields("LogPiece", offset=2**63),
    "offset-negative": fields("LogPiece", offset=-1),
    "offset-text": fields("LogPiece", offset="0"),
    "offset-ahead": fields("LogPiece", offset=2**40),
    "exit-text": fields("Exited", code="0"),
    "signal": fields("Exited", code=None, signal=9999),
    "survivors": before("Exited", told("Survivors", pids="abc")),
    "progress": before("Exited", encode({"message": "Progress", "task": "worker-0"}, SPACES * 50)),
    "files-lacking": ("FilesListed", lambda *_: [encode({"message": "FilesListed"})]),
    "files-types": fields("FilesListed", files=[[5, 5, 5]]),
    "project-parts": before("Exited", *[encode(PART, SPACES)] * 64),
    # no fault of the frames
    "real-time-signal": fields("Exited", code=None, signal=40),
    "no-answer": instead("DialResults"),
}  # fmt: skip


def main(mode: str, *command: str) -> None:
    agent = subprocess.Popen(command, stdout=subprocess.PIPE, bufsize=0)
    assert agent.stdout is not None
    said = b""
    while GREETING not in said and (more := os.read(agent.stdout.fileno(), MB)):
        said += more
    tell(GREETING)
    event, changed = MODES[mode]
    decoder = Decoder()
    data = said.partition(GREETING)[2]
    while True:
        for head, body in decoder.feed(data):
            for each in changed(head, body) if head["message"] == event else [encode(head, body)]:
                tell(each)
        if not (data := os.read(agent.stdout.fileno(), MB)):
            return


def tell(data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(1, rest) :]


if __name__ == "__main__":
    main(*sys.argv[1:])
