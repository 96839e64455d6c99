"""`launch` itself: starts a program on the hosts of a cluster, and waits for its end."""

from __future__ import annotations

import os
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

import click

from launcher import __version__
from launcher.caller.standard_output import write_out
from launcher.caller.working_directory import working_directory
from launcher.cluster.plan import is_off
from launcher.commands import options
from launcher.errors import EXIT_DONE, UsageError
from launcher.hosts.all_hosts import Hosts
from launcher.hosts.inbox import Inbox, signals_into
from launcher.hosts.own_processes import adopt_orphans, end_what_is_left
from launcher.run.missing_program import refuse_missing_programs
from launcher.run.request import Request, requested_cluster

if TYPE_CHECKING:
    from launcher.run.resuming.resumption import Resumption

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


@click.command(cls=options.LaunchCommand, context_settings=options.BEFORE_COMMAND, epilog=EPILOG)
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
def command(**given: Any) -> None:
    """Start a TensorFlow program on several processes: TF_CONFIG, logs, stop and clean-up included."""
    given["no_keras_fix"] |= is_off(os.environ.get("LAUNCH_KERAS_FIX"))
    given["keep_tf_config"] |= is_off(os.environ.get("LAUNCH_TF_CONFIG"))
    try:
        working_directory()
    except OSError as error:
        raise UsageError(f"the working directory is not there ({error.strerror}): cd to one that exists") from error
    raise SystemExit(run(options.request(**given)))


def run(request: Request) -> int:
    """Do what the command line asks; return the exit code. Orphans of the run become children of this process.

    Raises:
        LaunchError: nothing was started, or a host failed before any worker was.
    """
    if request.resume is None:
        return _run(request)
    from launcher.run.resuming.resumption import resumed  # it reads run.json by msgspec: 8 ms before any agent starts

    with resumed(request) as earlier:
        return _run(earlier.request, earlier)


def _run(request: Request, earlier: Resumption | None = None) -> int:
    """`earlier`: the run that is resumed."""
    cluster = requested_cluster(request)
    if request.dry_run:
        from launcher.commands.dry_run import planned  # it shows by rich, which takes longer to import than a start

        write_out(planned(cluster, request, earlier))
        return EXIT_DONE
    refuse_missing_programs(cluster)
    if earlier is not None:
        earlier.ask_for_options(cluster)
    inbox: Inbox = SimpleQueue()
    try:
        with signals_into(inbox), Hosts(cluster.hosts, inbox, cluster.timeouts.lease) as hosts:
            hosts.await_start()
            from launcher.run.session import Session  # while the agents start: neither waits for the other

            adopt_orphans()
            return Session(cluster, request, hosts, inbox, earlier).to_its_end().exit_code
    finally:
        end_what_is_left()
