"""`odd_frames.py MODE COMMAND...` runs an agent, and changes one thing in what it tells on the way."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from launcher.on_host.agent.framing import FRAME, GREETING, Decoder, encode

Head = dict[str, Any]
MB = 1 << 20


def framed(head: bytes, body: bytes = b"") -> bytes:
    """A frame whose head is what it is."""
    return FRAME.pack(len(head), len(body)) + head + body


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
    return encode({"event": kind, "task": "worker-0", **values})


SPACES = b" " * MB
MODES = {
    "huge-head": instead("ready", FRAME.pack(0xFFFFFFFF, 0), *[SPACES] * 700),
    "nest": instead("ready", framed(b"[" * 200_000)),
    "list": instead("ready", framed(b"[1,2]")),
    "no-facts": instead("ready", framed(b'{"event": "ready"}')),
    "python": fields("ready", python=5),
    "twice": ("ready", lambda head, body: [encode(head, body)] * 2),
    "ports": fields("reserved", ports={"worker-0": "1; rm"}),
    "unknown": before("started", told("whatever")),
    "early-log": before("reserved", told("log", offset=0)),
    "task": fields("log", task="../../x-0"),
    "offset-high": fields("log", offset=2**63),
    "offset-negative": fields("log", offset=-1),
    "offset-text": fields("log", offset="0"),
    "offset-ahead": fields("log", offset=2**40),
    "exit-text": fields("exited", code="0"),
    "signal": fields("exited", code=None, signal=9999),
    "survivors": before("exited", told("survivors", pids="abc")),
    "progress": before("exited", encode({"event": "progress", "task": "worker-0"}, SPACES * 50)),
    "files-lacking": ("files_listed", lambda *_: [encode({"event": "files_listed"})]),
    "files-types": fields("files_listed", files=[[5, 5, 5]]),
    "project-parts": before("exited", *[encode({"event": "project_part"}, SPACES)] * 64),
    # no fault of the frames
    "real-time-signal": fields("exited", code=None, signal=40),
    "no-answer": instead("dialled"),
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
            for frame in changed(head, body) if head["event"] == event else [encode(head, body)]:
                tell(frame)
        if not (data := os.read(agent.stdout.fileno(), MB)):
            return


def tell(data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(1, rest) :]


if __name__ == "__main__":
    main(*sys.argv[1:])
