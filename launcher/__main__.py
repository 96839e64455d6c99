"""`launch`, and `python -m launcher`.

The agent of this machine is started first: its Python boots while this one imports the rest.
"""

from __future__ import annotations

import os
import signal
import sys
from types import FrameType
from typing import NoReturn

from launcher.agent_process import AgentProcess
from launcher.transport import agent_argv

STDERR = 2
ENDING = (signal.SIGINT, signal.SIGTERM)
STARTING_NOTHING = {"-h", "--help", "--version", "--dry-run"}


def main() -> NoReturn:
    """The console script."""
    begin_clean()
    early: AgentProcess | None = None

    def end(number: int, _frame: FrameType | None) -> NoReturn:
        """Until the run takes the signals over. Unlike this, a KeyboardInterrupt can get lost inside an import."""
        if early is not None:
            early.end()
        os._exit(128 + number)

    for number in ENDING:
        signal.signal(number, end)
    if not STARTING_NOTHING & set(sys.argv):
        signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)  # no moment between its start and `end` knowing of it
        early = AgentProcess(agent_argv("localhost"))
        signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)
        early.send_program()
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
