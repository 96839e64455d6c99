"""The parts in C, built when they are first needed."""

from __future__ import annotations

from pathlib import Path

from rig.lab import checked

SOURCES = Path(__file__).parent


def built(name: str, into: Path, *options: str) -> Path:
    """The program or library made of NAME.c, in the directory `into`."""
    target = into / name
    if not target.exists():
        checked(["gcc", "-O2", *options, "-o", str(target), str(SOURCES / f"{name}.c")])
        target.chmod(0o755)  # whatever the umask: the host's users load it
    return target
