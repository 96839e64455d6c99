"""Agents that are started before anything slow is imported, on a guess of which hosts the command line means.

A guess is used only where the run turns out to want that very command; any other is ended, and has done nothing. So it
may be simple: it needs to be right for the files that people write, not for every file that YAML allows.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from launcher.agent_process import AgentProcess
from launcher.transport import agent_argv, local, over_ssh, ssh_options

STARTING_NOTHING = frozenset({"-h", "--help", "--version", "--dry-run"})
LARGEST_FILE = 1 << 16
"""Bytes of a cluster file that are looked at."""
MOST_GUESSES = 32
"""As many connections are made at a time (`hosts.CONNECTING_AT_ONCE`)."""
_FILE = re.compile(r"(?:-c|--cluster)(?:=?(.+))?")
_HOST = re.compile(r"""[-{,"'\s]host["']?\s*:\s*["']?([\w@.:-]+)""")
_COMMENT = re.compile(r"(?m)(?:^|\s)#.*")
_OTHER_OPTIONS = re.compile(r"\b(?:ssh|lease)[\"']?\s*:")
"""With these in the file ssh is called in another way."""
LOCALHOST = "localhost"


def likely_agents(arguments: Sequence[str]) -> list[tuple[str, ...]]:
    """The commands that start the agents of this command line's hosts, as far as a glance tells."""
    own = arguments[: arguments.index("--")] if "--" in arguments else arguments
    if STARTING_NOTHING & set(own):
        return []
    hosts = named_hosts(own)
    return [tuple(agent_argv(host, local if host == LOCALHOST else over_ssh(ssh_options()))) for host in hosts]


def named_hosts(arguments: Sequence[str]) -> list[str]:
    """The hosts of the cluster file, this machine where none is named, nothing where a glance is not enough."""
    path = None
    for word, following in zip(arguments, [*arguments[1:], None], strict=True):
        if found := _FILE.fullmatch(word):
            path = found[1] or following
    if path is None:
        return [LOCALHOST]
    try:
        with open(path, encoding="utf-8") as file:  # noqa: PTH123 - importing pathlib takes longer than all of this
            text = _COMMENT.sub("", file.read(LARGEST_FILE))
    except (OSError, ValueError):
        return []  # whoever reads it in earnest tells what is wrong with it
    hosts = list(dict.fromkeys(_HOST.findall(text)))[:MOST_GUESSES]
    return [host for host in hosts if host == LOCALHOST] if _OTHER_OPTIONS.search(text) else hosts


class HeadStart:
    """The agents that were started early, by their commands."""

    def __init__(self) -> None:
        self._agents: dict[tuple[str, ...], AgentProcess] = {}

    def begin(self, commands: Iterable[tuple[str, ...]]) -> None:
        """Start them; a program that is missing here is told when it is needed."""
        for argv in commands:
            try:
                self._agents[argv] = AgentProcess(argv)
            except OSError:
                continue
        for agent in self._agents.values():
            agent.send_program()

    def take(self, argv: Sequence[str]) -> AgentProcess | None:
        """The agent that this command would start, if it has been."""
        return self._agents.pop(tuple(argv), None)

    def end(self) -> None:
        """Nobody wants the others."""
        for agent in self._agents.values():
            agent.kill()
        while self._agents:
            self._agents.popitem()[1].close()
