"""The command line: options in, exit code out, nothing else."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from importlib import import_module
from typing import Any, NoReturn

import click

from launcher import __version__
from launcher.caller.called_as import launch_command
from launcher.caller.here import here, take
from launcher.caller.standard_output import write_error
from launcher.commands import options
from launcher.errors import EXIT_HOST, EXIT_USAGE, ClusterFileError, LaunchError, UsageError
from launcher.wording import harmless

OTHER_COMMANDS = ("collect", "doctor", "leftovers")
"""Each is `command` in a module of that name, which no other command imports."""

EPILOG = """\b
COMMAND is any program; without it the cluster file's is run, else the training program that comes with tf-launch
(`python -m training`). `train.py ...` means `python train.py ...`.

\b
`python` (or `python3`) in front means the one of --python, or else of the cluster file. Where neither names one, it is
on this machine that of the active virtual environment (VIRTUAL_ENV, CONDA_PREFIX), or else tf-launch's own.

\b
In COMMAND and --env, {index}, {rank}, {type}, {workers}, {address}, {chief_address}, {host} and {run_dir} stand for
each task's own (docs/cluster_file.md); any other text in braces stays as it is.

\b
Each task finds TF_CONFIG in its environment, and LAUNCH_OUTPUT_DIR: the directory for all that it makes (checkpoints,
TensorBoard logs, models), the same in every attempt. It is, or is brought to, chief/ in the run's directory.

\b
Examples:
  {launch} --cluster cluster_configs/two_local.yaml
  {launch} --workers 2 -- python train.py --epochs 3
  {launch} -H localhost:2,gpu-b:2 train.py
  {launch} --cluster two_local.yaml --dry-run --json

\b
Other commands (each has its own --help):
  {launch} collect [RUN]       bring what a run has left on its hosts
  {launch} doctor -c FILE      examine the hosts and the network between them, start nothing
  {launch} leftovers [HOST]    list what runs have left on hosts, end or remove it

\b
Exit codes: 0 done, 1 workers failed, 2 usage or cluster file, 3 a host cannot do what is asked of it,
130 and 143 interrupted by Ctrl-C or SIGTERM.
"""


@click.command(cls=options.Command, context_settings=options.BEFORE_COMMAND, epilog=EPILOG)
@options.cluster
@options.hosts
@options.workers
@click.option("--dry-run", is_flag=True, help="Show what would be started, start and write nothing.")
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="For machines: the plan with --dry-run, else the run's result at the end, on stdout.",
)
@options.runs_dir
@click.option(
    "--resume",
    metavar="RUN",
    help="Go on with an earlier run (name, path or `latest`) in its directory, where its checkpoints are: as it was "
    "begun, but for the options and the COMMAND that are given beside it.",
)
@options.take_over
@options.trust_ssh_options
@click.option(
    "--max-restarts",
    type=click.IntRange(0),
    metavar="N",
    help="Start the gang again up to N times after a failure; with a chief and a ps, a worker that died alone.",
)
@options.stall
@options.env
@options.python
@click.option("-q", "--quiet", is_flag=True, help="Show the chief's log only.")
@click.option("-v", "--verbose", is_flag=True, help="Show TensorFlow's start-up lines, too, and each worker's own.")
@options.no_color
@click.option(
    "--no-keras-fix",
    is_flag=True,
    help="Leave Keras 3 as it is: no fix, no reports of progress. LAUNCH_KERAS_FIX=0 does the same.",
)
@click.option(
    "--keras",
    type=click.Choice(["2", "3"]),
    help="The Keras that tf.keras is: 2 is tf_keras (TF_USE_LEGACY_KERAS=1), which must be installed where the workers "
    "run; `import keras` gets it, too.",
)
@click.option(
    "--keep-tf-config",
    is_flag=True,
    help="A program that sets TF_CONFIG itself keeps it. Else launch's wins, unless the program's names addresses of "
    "the run. LAUNCH_TF_CONFIG=0 does the same.",
)
@click.version_option(__version__, prog_name="launch")
@options.command
def launch(**given: Any) -> None:
    """Start a TensorFlow program on several processes: TF_CONFIG, logs, stop and clean-up included."""
    from launcher.cluster.plan import is_off
    from launcher.commands.run import run

    given["no_keras_fix"] |= is_off(os.environ.get("LAUNCH_KERAS_FIX"))
    given["keep_tf_config"] |= is_off(os.environ.get("LAUNCH_TF_CONFIG"))
    try:
        here()
    except OSError as error:
        raise UsageError(f"the working directory is not there ({error.strerror}): cd to one that exists") from error
    raise SystemExit(run(options.request(**given)))


def main() -> NoReturn:
    """Run the command line; exceptions become exit codes."""
    with contextlib.suppress(OSError):  # told by who needs it: not everything does
        take()
    try:
        command, name, arguments = chosen_command(sys.argv[1:])
        command.main(arguments, prog_name=name, standalone_mode=False)
    except ClusterFileError as error:
        leave(error.exit_code, str(error))  # file:line:column comes first in a line, where editors look for it
    except LaunchError as error:
        leave(error.exit_code, "\n".join(f"launch: {line}" for line in str(error).splitlines()))
    except click.ClickException as error:
        said = io.StringIO()
        error.show(said)
        leave(EXIT_USAGE, said.getvalue().rstrip("\n"))
    except (click.Abort, KeyboardInterrupt):
        leave(130)
    except (OSError, RuntimeError) as error:  # an Abort is one as well
        from launcher.hosts.shortage import of_this_machine

        short = of_this_machine(error)
        if short is None:
            raise
        leave(EXIT_HOST, f"launch: {short[0]}\nlaunch:   What to do: {short[1]}")
    leave(0)


def chosen_command(words: list[str]) -> tuple[click.Command, str, list[str]]:
    """What the first word says: the command, its name, and the words that are left for it.

    A program that is called like one of the commands can be run behind `--`.
    """
    first = words[0] if words else ""
    name = launch_command()
    if first in OTHER_COMMANDS:
        command, called, left = import_module(f"launcher.commands.{first}").command, f"{name} {first}", words[1:]
    else:
        command, called, left = launch, name, words[1:] if first == "run" else words
    command.epilog = command.epilog.replace("{launch}", name)
    return command, called, left


def leave(code: int, complaint: str = "") -> NoReturn:
    """End the process with a code, a complaint on stderr before it."""
    if complaint:
        from launcher.cluster.redaction import redacted_text  # a run that is well has no complaint

        write_error(harmless(redacted_text(complaint)))
    raise SystemExit(code)
