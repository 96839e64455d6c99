"""Options that several commands share, and the request that they make up."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from launcher.caller.called_as import launch_command
from launcher.caller.standard_output import writing_out
from launcher.cluster.defaults import RUNS_DIR
from launcher.cluster.placeholders import kept
from launcher.errors import UsageError
from launcher.run.request import Request

SETTINGS: dict[str, Any] = {"help_option_names": ["-h", "--help"], "max_content_width": 110}
BEFORE_COMMAND = SETTINGS | {"allow_interspersed_args": False}
"""For commands that a program's own command line may follow: after its first word, all options are the program's."""


class LaunchCommand(click.Command):
    """A command whose `--help` and `--version` are written like its other output."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the command line; click prints `--help` and `--version` meanwhile, and then exits."""
        with writing_out():
            return super().parse_args(ctx, args)
        raise click.exceptions.Exit(0)  # reached only if stdout was closed while they were printed


cluster = click.option(
    "-c", "--cluster", type=click.Path(path_type=Path), metavar="FILE", help="The cluster file (YAML)."
)
workers = click.option(
    "-n", "--workers", type=click.IntRange(1, 1000), metavar="N", help="N workers on this machine, no file."
)
hosts = click.option(
    "-H",
    "--hosts",
    metavar="HOST[:N],...",
    help="N workers (1 where no number is given) on each of these hosts, no file: `a:2,b:2`. "
    "`localhost` is this machine, all others are ssh destinations.",
)
runs_dir = click.option(
    "--run-dir",
    "runs_dir",
    type=click.Path(path_type=Path),
    metavar="DIR",
    default=Path(RUNS_DIR),
    show_default=True,
    help="Where the directories of runs are.",
)
take_over = click.option(
    "--take-over",
    is_flag=True,
    help="You have seen that the run's launcher has gone, where this cannot be known here: after a kill on another "
    "machine, on a file system whose locks stay on one machine.",
)
trust_ssh_options = click.option(
    "--trust-ssh-options",
    is_flag=True,
    help="Use the options for ssh of a run that was made on another machine, or copied, without asking.",
)
env = click.option(
    "--env",
    multiple=True,
    metavar="KEY=VALUE",
    help="For every worker; KEY alone passes on its value here. May be repeated.",
)
python = click.option(
    "--python",
    metavar="PATH",
    help="The Python that `python` means on every host, whatever the cluster file says.",
)
stall = click.option(
    "--stall",
    metavar="DURATION",
    help="End the run (or restart it) once no worker has reported a step for so long, such as 5m; "
    "`timeouts.stall` in the cluster file.",
)
no_color = click.option("--no-color", is_flag=True, help="No colours (as does NO_COLOR in the environment).")
command = click.argument("command", nargs=-1, type=click.UNPROCESSED, metavar="[--] [COMMAND ...]")


def request(env: tuple[str, ...], stall: str | None = None, **given: Any) -> Request:
    """The command line as one value.

    Raises:
        UsageError: options exclude each other, or one is missing.
    """
    asked = Request(env=dict(map(_assignment, env)), stall=None if stall is None else _stall_seconds(stall), **given)
    if len(asked.start_on) > 1:
        options = " and ".join(f"--{option}" for option in asked.start_on)
        raise UsageError(f"{options} exclude each other: each says which hosts there are, and how many workers")
    if not asked.start_on and asked.resume is None:
        raise UsageError(
            "say what to start on: --cluster FILE, or --workers N for N workers on this machine, or --hosts a:2,b:2 "
            f"for 2 workers each on the hosts a and b (see {launch_command()} --help)"
        )
    return asked


def _stall_seconds(text: str) -> float:
    from launcher.cluster.file.keys import STALL  # with it comes PyYAML: 20 ms before any agent is started

    seconds = STALL.seconds(text)
    if seconds is None:
        raise UsageError(f"--stall {text}: allowed is {STALL.allowed}")
    return seconds


def _assignment(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not key or (not equals and key not in os.environ):
        shown = "=..." if equals else text
        raise UsageError(f"--env {shown}: write KEY=VALUE, or KEY alone for a variable that is set here")
    return key, value if equals else kept(os.environ[key])
