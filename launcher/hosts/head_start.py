"""Agents that are started before anything slow is imported, on a guess of what the command line means.

A guess is used only where the run turns out to want that very command; any other is ended, and has done nothing. So it
may be simple: it needs to be right for the files that people write, not for every file that YAML allows.
"""

from __future__ import annotations

import itertools
import os
import signal
import stat
from collections.abc import Iterable, Iterator, Sequence

from launcher.cluster.defaults import LOCALHOST
from launcher.hosts.agent_process import AgentProcess
from launcher.hosts.transport import CONNECTING_AT_ONCE, SSH, agent_argv, over_ssh, ssh_options

ENDING = (signal.SIGINT, signal.SIGTERM)
"""Signals that end this process before a run has taken them over."""
STARTING_NOTHING = frozenset({"-h", "--help", "--version", "--dry-run"})
OTHER_COMMANDS = ("collect", "doctor")
"""First words of a command line that is not about starting workers."""
LARGEST_FILE = 1 << 16
"""Bytes of a cluster file that are looked at."""
LARGEST_STATE = 1 << 20
"""Bytes of a `run.json`."""
FILE_OPTIONS = ("--cluster", "-c")
LOCALHOST_IN_FILE = ("host:", LOCALHOST)
PUNCTUATION = str.maketrans(dict.fromkeys("{}[],\"'", " "))


def likely_agents(arguments: Sequence[str]) -> list[tuple[str, ...]]:
    """The commands that start the agents of this command line's hosts, as far as a glance tells.

    Of the hosts in a cluster file this machine alone is started early: the others are not dialled before the file has
    been read without a mistake.
    """
    own = arguments[: arguments.index("--")] if "--" in arguments else arguments
    if STARTING_NOTHING & set(own):
        return []
    if own[:1] == ["collect"]:
        return agents_of_run(*named_run(own[1:]))
    if own and own[0] in OTHER_COMMANDS:
        return []
    return [tuple(agent_argv(LOCALHOST))] if runs_here(own) else []


def runs_here(arguments: Sequence[str]) -> bool:
    """Whether this machine is a host of the cluster file, or no file is named."""
    path = cluster_file(arguments)
    return path is None or LOCALHOST_IN_FILE in itertools.pairwise(words_of(glance(path)))


def glance(path: str) -> str:
    """The beginning of a cluster file; nothing of what only seems to be one, such as a pipe that would wait."""
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):  # noqa: PTH116 - importing pathlib takes longer than all of this
            return ""
        with open(path, encoding="utf-8") as file:  # noqa: PTH123 - as above
            return file.read(LARGEST_FILE)
    except (OSError, ValueError):
        return ""  # whoever reads it in earnest tells what is wrong with it


def cluster_file(arguments: Sequence[str]) -> str | None:
    """The value of `--cluster`."""
    path = None
    for word, following in zip(arguments, [*arguments[1:], None], strict=False):
        for option in FILE_OPTIONS:
            if word == option:
                path = following
            elif word.startswith(option):
                path = word[len(option) :].removeprefix("=")
    return path


def named_run(arguments: Sequence[str]) -> tuple[str, str]:
    """Where the directories of runs are, and which of them is meant."""
    root, run = "runs", "latest"
    words = iter(arguments)
    for word in words:
        if word == "--run-dir":
            root = next(words, root)
        elif word.startswith("--run-dir="):
            root = word.removeprefix("--run-dir=")
        elif not word.startswith("-"):
            run = word
    return root, run


def agents_of_run(root: str, run: str) -> list[tuple[str, ...]]:
    """The commands that reach the hosts which a run has left its files on; none where the user must be asked first."""
    import json

    from launcher.caller.own_files import ForeignError, is_made_here, read_own

    for path in (f"{root}/{run}", run):
        try:
            content, inode = read_own(path, "run.json", LARGEST_STATE)
            state = json.loads(content)
            hosts = [host for host in state["hosts"] if host["name"] != LOCALHOST]
            if any(host["ssh_options"] for host in hosts) and not is_made_here(
                state["launcher"]["host"], state["inode"], inode
            ):
                return []
            if any("<redacted>" in word for host in hosts for word in host["ssh_options"]):
                return []  # a secret that is not written down has to be found first
            return [
                tuple(agent_argv(host["name"], over_ssh([*host["ssh_options"], *ssh_options(host["connect_timeout"])])))
                for host in hosts[:CONNECTING_AT_ONCE]
            ]
        except ForeignError:
            return []
        except (OSError, ValueError, LookupError, TypeError, ArithmeticError, RecursionError):
            continue  # whoever reads it in earnest tells what is wrong with it
    return []


def words_of(text: str) -> Iterator[str]:
    """The words of a YAML text without comments; a colon stays with the word before it."""
    for line in text.replace('":', ": ").splitlines():
        yield from (" " + line).partition(" #")[0].translate(PUNCTUATION).split()


class HeadStart:
    """The agents that were started early, by their commands."""

    def __init__(self) -> None:
        self._agents: dict[tuple[str, ...], AgentProcess] = {}

    def begin(self, commands: Iterable[tuple[str, ...]]) -> None:
        """Start them; a program that is missing here is told when it is needed. None of them is waited for."""
        for argv in commands:
            # no moment between its start and this object knowing of it, in which a signal could end us
            before = signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
            try:
                self._agents[argv] = AgentProcess(argv)
            except OSError:
                continue
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, before)
        for agent in list(self._agents.values()):
            agent.send_program()

    def take(self, argv: Sequence[str]) -> AgentProcess | None:
        """The agent that this command would start, if it has been."""
        return self._agents.pop(tuple(argv), None)

    def end(self) -> None:
        """Nobody wants the others."""
        for argv, agent in self._agents.items():
            agent.hang_up()  # an agent of this machine ends by itself, and its guard last
            if argv[0] == SSH:
                agent.kill()  # in the middle of connecting it would not notice
        while self._agents:
            self._agents.popitem()[1].close()
