"""The agent of `launch leftovers` and its guard, as with any agent."""

from __future__ import annotations

from launcher.on_host.agent.pair import main as guard_and_serve
from launcher.on_host.leftovers.jobs import LeftoversJob
from launcher.on_host.leftovers.messages import COMMANDS


def main() -> None:
    """Split into guard and agent, greet, serve."""
    guard_and_serve(COMMANDS, lambda agent: [LeftoversJob(agent.link)])
