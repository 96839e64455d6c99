"""`launch`, and `python -m launcher`.

The agent of this machine is started first: its Python boots while this one imports the rest.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import NoReturn

from launcher.agent_process import AgentProcess
from launcher.transport import agent_argv

STDERR = 2
STARTING_NOTHING = {"-h", "--help", "--version", "--dry-run"}


def main() -> NoReturn:
    """The console script."""
    begin_clean()
    early = None if STARTING_NOTHING & set(sys.argv) else AgentProcess(agent_argv("localhost"))
    try:
        from launcher.cli import main

        main(early)
    finally:
        if early is not None:
            early.close()


def begin_clean() -> None:
    """Undo what a parent can hand on to our harm: closed standard streams, ignored or blocked signals."""
    while (spare := os.open(os.devnull, os.O_RDWR)) <= STDERR:
        pass
    os.close(spare)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)


if __name__ == "__main__":
    main()
