"""Names into addresses, in a process beside the agent: a DNS that does not answer must not stop its loop."""

from __future__ import annotations

import json
import os
import signal
import socket

from launcher.on_host.agent.processes import PR_SET_PDEATHSIG, prctl

if False:  # names for type checkers only: typing costs start-up time
    from collections.abc import Iterable
    from typing import Any, NoReturn

    Place = tuple[int, Any]
    """An address family, and what `connect` takes."""

CANNOT_RESOLVE = "cannot resolve the name "
"""How the reason begins that there is no address to dial."""
AT_ONCE = 32
"""Names that are looked up at a time."""
MOST_ADDRESSES = 16
"""Of one name that are tried."""
PIECE = 1 << 16


def numeric(address: str, port: int) -> Place | None:
    """Where an address is; None: it is a name, and has to be looked up."""
    try:
        found = socket.getaddrinfo(address, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
    except (OSError, ValueError):  # which a UnicodeError is, too
        return None
    return found[0][0], found[0][4]


def unresolved(name: str, why: str) -> str:
    """What is told of a name that has no address."""
    return f"{CANNOT_RESOLVE}{name}: {why}"


class Resolving:
    """Looks up names, all at once. Each answer is the name, its addresses, and if there are none, why."""

    def __init__(self, names: Iterable[str]) -> None:
        """Begin.

        Raises:
            OSError: no process can be started.
        """
        self._heard = b""
        self.fd, answers = os.pipe()
        """Readable when there is an answer, or no more will come."""
        agent = os.getpid()
        try:
            self._pid = os.fork()
        except OSError:
            os.close(self.fd)
            os.close(answers)
            raise
        if self._pid == 0:
            look_up(sorted(set(names)), answers, agent)
        os.close(answers)

    def answers(self) -> list[tuple[str, list[str], str]] | None:
        """What has come since the last time; None: nothing more comes."""
        data = os.read(self.fd, PIECE)
        *lines, self._heard = (self._heard + data).split(b"\n")
        return [tuple(json.loads(line)) for line in lines] if data else None

    def close(self) -> None:
        """Nobody waits for the rest."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1
            try:
                os.waitid(os.P_PID, self._pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                return  # it was waited for: the number may be another's by now
            os.kill(self._pid, signal.SIGKILL)


def look_up(names: list[str], answers: int, agent: int) -> NoReturn:
    """In the child: answer for each name, a line of JSON each. What hangs there ends with the process."""
    try:
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD):
            signal.signal(number, signal.SIG_DFL)
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        null = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1):  # the launcher sees the agent's end by the end of these
            os.dup2(null, stream)
        for fd in map(int, os.listdir("/proc/self/fd")):  # among them the ports that are held for workers
            if fd > 2 and fd != answers:
                close_quietly(fd)
        if os.getppid() == agent:
            in_threads(names, answers)
    finally:
        os._exit(0)


def close_quietly(fd: int) -> None:
    """Close what may be closed already."""
    try:
        os.close(fd)
    except OSError:
        return


def in_threads(names: list[str], answers: int) -> None:
    """Look them up, as many at a time as may be."""
    import threading

    def work() -> None:
        while names:
            try:
                name = names.pop()
            except IndexError:
                return  # another thread was faster
            os.write(answers, json.dumps([name, *addresses_of(name)]).encode() + b"\n")  # small enough to stay whole

    threads = [threading.Thread(target=work, daemon=True) for _ in names[1:AT_ONCE]]
    try:
        for each in threads:
            each.start()
    except RuntimeError:
        threads = [each for each in threads if each.ident]  # there may be no more of them
    work()
    for each in threads:
        each.join()


def addresses_of(name: str) -> tuple[list[str], str]:
    """All that a name stands for, in the order in which they are to be tried; and why there is nothing."""
    try:
        found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    except OSError as error:
        return [], error.strerror or str(error)
    except ValueError as error:  # it can be no name
        return [], str(error)
    return list(dict.fromkeys(str(place[0]) for *_, place in found))[:MOST_ADDRESSES], ""
