"""Which task of which attempt this process is."""

from __future__ import annotations

import json
import os

CONFIG = json.loads(os.environ["TF_CONFIG"])
TASK = f"{CONFIG['task']['type']}-{CONFIG['task']['index']}"
ATTEMPT = int(os.environ["LAUNCH_ATTEMPT"])
OUTPUT = os.environ["LAUNCH_OUTPUT_DIR"]


def own_port() -> int:
    """The port that the cluster gives this task."""
    address = CONFIG["cluster"][CONFIG["task"]["type"]][CONFIG["task"]["index"]]
    return int(address.rpartition(":")[2])


def say(text: str) -> None:
    """Write a line in one piece."""
    os.write(1, text.encode() + b"\n")
