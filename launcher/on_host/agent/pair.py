"""The agent and its guard: two processes, each of which cleans up after the other."""

from __future__ import annotations

import os
import signal

from launcher.on_host.agent.framing import GREETING
from launcher.on_host.agent.limits import in_words, raise_open_files
from launcher.on_host.agent.loop import Agent
from launcher.on_host.agent.messages import COMMANDS
from launcher.on_host.agent.processes import (
    PR_SET_CHILD_SUBREAPER,
    PR_SET_NAME,
    PR_SET_PDEATHSIG,
    has_children,
    kill_descendants,
    lacking,
    prctl,
    send_signal,
)

if False:  # names for type checkers only: typing costs start-up time
    from collections.abc import Mapping
    from typing import NoReturn

    from launcher.on_host.agent.loop import More
    from launcher.on_host.agent.messages import Command

ENDING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def guard(agent: int) -> NoReturn:
    """Wait for the agent's end, then kill everything that it has left."""
    prctl(PR_SET_NAME, b"launch-guard")
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD])
    status = wait_for(agent)
    if os.WIFSIGNALED(status):
        os.write(2, f"the agent was killed by {signal.Signals(os.WTERMSIG(status)).name}\n".encode())
    left = kill_descendants()
    if left:
        os.write(2, f"processes that could not be killed: {left}\n".encode())
    os._exit(0 if status == 0 and not left else 1)


def wait_for(child: int) -> int:
    """Wait for a child's end, passing on to it the signals that tell this process to end; return its wait status.

    stdin and stdout are closed in this process, so that the stream ends for the launcher as soon as the agent does.
    """
    for number in ENDING:
        signal.signal(number, lambda *_: send_signal([child], signal.SIGTERM))
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, 1)
    os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)  # it is not reaped yet, so no other process can have its pid
    for number in ENDING:
        signal.signal(number, signal.SIG_IGN)
    return os.waitpid(child, 0)[1]


def leave_earlier_children() -> None:
    """Continue in a new process without children, if this one has inherited some from the login shell that it replaced.

    What a `.bashrc` starts in the background, with everything below it, must not be killed as a part of the run.
    """
    this = os.getpid()
    guard = os.fork()
    if guard:
        os._exit(0 if wait_for(guard) == 0 else 1)
    prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != this:
        os._exit(1)


def main(known: Mapping[str, type[Command]] = COMMANDS, more: More = lambda _: ()) -> None:
    """Split into guard and agent, greet, serve. `known`, `more`: as for `Agent`."""
    signal.pthread_sigmask(signal.SIG_SETMASK, [])  # the parent's mask of blocked signals is inherited
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    if missing := lacking():
        raise SystemExit(f"tf-launch: {missing}")
    if has_children():
        leave_earlier_children()
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    guard_gone, guard_lives = os.pipe()
    try:
        agent = os.fork()
    except OSError as error:
        raise SystemExit(f"tf-launch: cannot start a process: {in_words(error)}") from error
    if agent:
        os.close(guard_gone)
        guard(agent)
    os.close(guard_lives)
    os.setsid()
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    prctl(PR_SET_NAME, b"launch-agent")
    raise_open_files()
    os.set_blocking(1, True)
    os.write(1, GREETING)
    Agent(guard_gone, known, more).run()
    os._exit(0)  # everything is written, and finalising the interpreter would only delay the launcher
