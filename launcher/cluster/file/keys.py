"""Every key of a cluster file, and what it may hold."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any

from launcher.cluster.file.value_kinds import Count, Duration, Flag, Text, ValueKind
from launcher.cluster.file.value_structures import Environment, ListOf, Ports, Section, Shorthand, Words
from launcher.cluster.plan import RESERVED
from launcher.cluster.spec import TASK_TYPES

HOST_EXAMPLE = "{host: localhost, workers: 2}"
SSH_DESTINATION = "an ssh destination: an alias, a host or user@host"
FORMER_TYPES = {"master": f"TensorFlow 2 calls it 'chief'; allowed are {', '.join(TASK_TYPES)}"}
STALL = Duration(zero=False)
PATTERN = r"!?(?!#)(?=.*\S)(?:\\.|\[[!^]?+.[^]\n]*\]|[^\\[\n])+"
"""One line that is no comment, and leaves no bracket or backslash open: git lets such a line match nothing."""


def _is_address(text: str) -> bool:
    try:
        return not ipaddress.ip_address(text.strip("[]")).is_unspecified
    except ValueError:
        return re.fullmatch(r"(?![-.])(?=.*[A-Za-z])[A-Za-z0-9._-]{1,253}", text) is not None


def _is_below(text: str) -> bool:
    path = PurePosixPath(text)
    return bool(text) and not path.is_absolute() and ".." not in path.parts


SSH = Section(
    {"config": Text("the path of a file"), "connect_timeout": Duration(zero=False), "options": Words()},
    "{connect_timeout: 10s}",
)
SHARED_HOST_KEYS: Mapping[str, ValueKind] = {
    "workers": Count(0, 9999),
    "tasks": Section({kind: Count(0, 9999) for kind in TASK_TYPES}, "{chief: 1, worker: 2}", hints=FORMER_TYPES),
    "gpus": ListOf(Count(0, 9999), "GPU", "[0, 1]", unique=True),
    "python": Text("the path or name of a Python interpreter"),
    "workdir": Text("the path of a directory"),
    "env": Environment(RESERVED),
    "ports": Ports(),
    "hold_ports": Flag(),
    "run_dir": Text("the path of a directory"),
}
HOST_KEYS: Mapping[str, ValueKind] = {
    "host": Text(f"localhost or {SSH_DESTINATION}", r"(?!-)(?!(?!ssh://)[^@]*:[^@]*@)\S{1,300}", str.isprintable),
    "address": Text("a host name or an IP address that others can dial, without a port", check=_is_address),
    **SHARED_HOST_KEYS,
    "ssh": SSH,
}
SYNC = Section(
    {
        "from": Text("the path of a directory"),
        "exclude": ListOf(Text("a pattern as in .gitignore", PATTERN), "pattern", '["*.ckpt"]', unique=True),
        "gitignore": Flag(),
    },
    '{from: ., exclude: ["*.ckpt"]}',
    required=("from",),
)
ROOT = Section(
    {
        "name": Text("a text without '/' that can name a directory", r"(?!\.)(?=.*\S)[^/\n]{1,100}"),
        "hosts": ListOf(
            Section(
                HOST_KEYS,
                HOST_EXAMPLE,
                required=("host",),
                hints={"user": "write `host: user@host`", "port": "the port of ssh belongs in your ssh configuration"},
            ),
            "a host",
            f"[{HOST_EXAMPLE}]",
            low=1,
        ),
        "defaults": Section(
            SHARED_HOST_KEYS,
            "{python: python3.11}",
            hints={
                **dict.fromkeys(("host", "address"), "it differs from host to host: write it there"),
                "ssh": "what all hosts share stands at the top level",
            },
        ),
        "ssh": SSH,
        "command": Words(low=1),
        "per_task": Section({kind: Words(low=1) for kind in TASK_TYPES}, "{ps: [python, ps.py]}", hints=FORMER_TYPES),
        "restart": Section({"max_restarts": Count(0), "backoff": Duration()}, "{max_restarts: 3, backoff: 1s}"),
        "timeouts": Section(
            {
                "start": Duration(zero=False),
                "stall": STALL,
                "grace": Duration(),
                "failure_grace": Duration(),
                "evaluator": Duration(),
                "lease": Duration(zero=False),
            },
            "{start: 120s, grace: 30s}",
        ),
        "network": Section({"open": Flag()}, "{open: true}"),
        "sync": Shorthand("from", SYNC, "the path of the project's directory"),
        "collect": ListOf(
            Text("a path below the chief's output directory", check=_is_below),
            "path",
            "[checkpoints, export]",
            unique=True,
        ),
        "collect_interval": Duration(),
    },
    "{hosts: [" + HOST_EXAMPLE + "]}",
    required=("hosts",),
    hints=dict.fromkeys(HOST_KEYS, "it belongs to a host: write it below `hosts:` or `defaults:`"),
)


def json_schema() -> dict[str, Any]:
    """The JSON Schema of a cluster file, for editors; it knows the keys and types, not the contradictions."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "tf-launch cluster file", **ROOT.schema}
