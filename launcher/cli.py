"""The command line: options in, exit code out, nothing else."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

import click

from launcher import __version__
from launcher.errors import EXIT_USAGE, ClusterFileError, LaunchError, UsageError
from launcher.head_start import OTHER_COMMANDS, HeadStart

EPILOG = """\b
COMMAND is any program. `python` in front means the host's own Python; `train.py ...` means `python train.py ...`.
Without COMMAND the cluster file's is run, else the training program that comes with tf-launch (`python -m training`).

\b
Examples:
  launch --cluster cluster_configs/two_local.yaml
  launch --workers 2 -- python train.py --epochs 3
  launch --cluster two_local.yaml --dry-run --json

\b
Other commands (each has its own --help):
  launch collect [RUN]       bring what a run has left on its hosts

\b
Exit codes: 0 done, 1 workers failed, 2 usage or cluster file, 3 a host cannot do what is asked of it,
130 and 143 interrupted by Ctrl-C or SIGTERM.
"""


@click.command(
    context_settings={
        "help_option_names": ["-h", "--help"],
        "allow_interspersed_args": False,
        "max_content_width": 110,
    },
    epilog=EPILOG,
)
@click.option("-c", "--cluster", type=click.Path(path_type=Path), metavar="FILE", help="The cluster file (YAML).")
@click.option("-n", "--workers", type=click.IntRange(1, 1000), metavar="N", help="N workers on this machine, no file.")
@click.option("--dry-run", is_flag=True, help="Show what would be started, start and write nothing.")
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="For machines: the plan with --dry-run, else the run's result at the end, on stdout.",
)
@click.option(
    "--run-dir",
    type=click.Path(path_type=Path),
    metavar="DIR",
    default=Path("runs"),
    show_default=True,
    help="Where the run's own directory is made.",
)
@click.option(
    "--resume",
    metavar="RUN",
    help="Go on in the directory of an earlier run (name, path or `latest`), where its checkpoints are.",
)
@click.option(
    "--max-restarts", type=click.IntRange(0), metavar="N", help="Start the gang again up to N times after a failure."
)
@click.option(
    "--env",
    multiple=True,
    metavar="KEY=VALUE",
    help="For every worker; KEY alone passes on its value here. May be repeated.",
)
@click.option("-q", "--quiet", is_flag=True, help="Show the chief's log only.")
@click.option("-v", "--verbose", is_flag=True, help="Show TensorFlow's start-up lines, too.")
@click.option("--no-color", is_flag=True, help="No colours (as does NO_COLOR in the environment).")
@click.option(
    "--no-keras-fix", is_flag=True, help="Leave Keras 3's Model.fit under MultiWorkerMirroredStrategy as it is."
)
@click.version_option(__version__, prog_name="launch")
@click.argument("command", nargs=-1, type=click.UNPROCESSED, metavar="[--] [COMMAND ...]")
@click.pass_obj
def launch(early: HeadStart, /, **options: Any) -> None:
    """Start a TensorFlow program on several processes: TF_CONFIG, logs, stop and clean-up included."""
    from launcher.run import run

    try:
        Path.cwd()
    except FileNotFoundError as error:
        raise UsageError("the working directory is gone: cd to one that exists") from error
    raise SystemExit(run(request(**options), early))


def request(env: tuple[str, ...], **options: Any) -> Any:
    """The command line as one value.

    Raises:
        UsageError: options that exclude or miss each other.
    """
    from launcher.request import Request

    if (options["cluster"] is None) == (options["workers"] is None):
        raise UsageError(
            "say what to start on: --cluster FILE, or --workers N for N workers on this machine (see launch --help)"
            if options["cluster"] is None
            else "--cluster and --workers exclude each other: the cluster file says how many workers there are"
        )
    return Request(env=dict(map(_assignment, env)), **options)


def _assignment(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not key or (not equals and key not in os.environ):
        raise UsageError(f"--env {text}: write KEY=VALUE, or KEY alone for a variable that is set here")
    return key, value if equals else os.environ[key]


def main(early: HeadStart | None = None) -> NoReturn:
    """Run the command line; exceptions become exit codes. `early` has agents that may be used."""
    try:
        command, name, arguments = chosen_command(sys.argv[1:])
        command.main(arguments, obj=early or HeadStart(), prog_name=name, standalone_mode=False)
    except ClusterFileError as error:
        leave(error.exit_code, str(error))  # file:line:column comes first in a line, where editors look for it
    except LaunchError as error:
        leave(error.exit_code, "\n".join(f"launch: {line}" for line in str(error).splitlines()))
    except click.ClickException as error:
        error.show()
        leave(EXIT_USAGE)
    except (click.Abort, KeyboardInterrupt):
        leave(130)
    leave(0)


def chosen_command(words: list[str]) -> tuple[click.Command, str, list[str]]:
    """What the first word says: the command, its name, and the words that are left for it.

    A program that is called like one of the commands can be run behind `--`.
    """
    first = words[0] if words else ""
    if first in OTHER_COMMANDS:
        return import_module(f"launcher.{first}").command, f"launch {first}", words[1:]
    return launch, "launch", words[1:] if first == "run" else words


def leave(code: int, complaint: str = "") -> NoReturn:
    """End the process with a code, a complaint on stderr before it."""
    if complaint:
        click.echo(complaint, err=True)
    raise SystemExit(code)
