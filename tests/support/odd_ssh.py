"""Stands in for ssh: by its name a host is one that works, or one that does something odd once it is logged in to."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from support.launching import PROGRAMS

SSH = """\
#!/bin/bash
while [ "$1" != -- ]; do [ "$1" = -G ] && exit 1; shift; done
host=$2; shift 2
echo $$ >> "$ODD_HOSTS/$host.started"
case $host in
  frozen*) exec sleep 1000 ;;
  printing*) exec cat /dev/zero ;;
  odd-*) odd=("$ODD_PYTHON" "$ODD_FRAMES" "${host#odd-}") ;;
esac
mkdir -p "$ODD_HOSTS/$host" && cd "$ODD_HOSTS/$host" && HOME=$PWD exec "${odd[@]}" sh -c "$*"
"""


class OddHosts:
    """Hosts of this machine, each with a home of its own below a directory."""

    def __init__(self, place: Path) -> None:
        self._place = place
        place.mkdir()
        ssh = place / "bin" / "ssh"
        ssh.parent.mkdir()
        ssh.write_text(SSH)
        ssh.chmod(0o700)

    def environment(self, path: str) -> Mapping[str, str]:
        """With which a launcher takes the stand-in for ssh."""
        frames = {"ODD_PYTHON": sys.executable, "ODD_FRAMES": str(PROGRAMS / "odd_frames.py")}
        return {"PATH": f"{self._place / 'bin'}{os.pathsep}{path}", "ODD_HOSTS": str(self._place), **frames}

    def times_started(self, host: str) -> int:
        """How often somebody has tried to connect to it."""
        started = self._place / f"{host}.started"
        return len(started.read_text().splitlines()) if started.exists() else 0
