"""Why a host does not take the project, each with what to do about it. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from launcher.run_directory.whole_files import shown
from launcher.transfer.remedies import remedy
from launcher.wording import amount, harmless_line, listed

NAMED = 5
"""So many files are named."""


def in_the_way(host: str, top: str, files: Sequence[tuple[str, str]]) -> str:
    """Files of the user's that would be lost; `files` are paths below `top`, each with what is wrong with it."""
    lines = [f"{host}: {_place(top, path)} {harmless_line(what)}" for path, what in files[:NAMED]]
    if len(files) > NAMED:
        lines.append(f"{host}: and {len(files) - NAMED} more")
    first = f"{top}/{files[0][0]}"
    move = shlex.join(["mv", first, f"{first}.old"]) if first.isprintable() else "mv FILE FILE.old"
    advice = f"What of it you want, copy into the project here; then move it out of the way on {host}: {move}"
    return "\n".join(
        [*lines, f"  The launcher has touched nothing there. {advice}; or name another `workdir` for the host."]
    )


def left_there(host: str, kept: Sequence[str]) -> str:
    names = listed([shown(Path(path)) for path in kept])
    return f"{host}: left there, though gone here, because it was changed there: {names}"


def waiting(host: str, path: str) -> str:
    return f"{host}: waiting until another host or launch is done with {_place(path)}"


def no_room(host: str, top: str, needed: int, free: int) -> str:
    found = f"the project needs {amount(needed)} there, {amount(free)} are free"
    return f"{host}: {_place(top)}: {found}; {_remedy('ENOSPC')}"


def failed(host: str, top: str, path: str, code: str, reason: str) -> str:
    """The agent could not do something to a file. Without a code the reason has the remedy in it."""
    return f"{host}: {_place(top, path)}: {reason}" + (f"; {_remedy(code)}" if code else "")


def not_received(host: str, top: str, path: str) -> str:
    return f"{host}: {_place(top, path)} was sent, and is not there now; does something else delete it? Launch again"


def _remedy(code: str) -> str:
    return remedy(
        code,
        no_room="make room there, name another `workdir` for the host, or leave files out with `sync.exclude`",
        no_permission="change its permissions, or name a `workdir` that you can write to",
        occupied="something else stands there: move it away, or name another `workdir`",
        otherwise="look at it there, or name another `workdir` for the host",
    )


def _place(top: str, path: str = ".") -> str:
    return shown(Path(top, path))
