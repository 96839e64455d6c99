"""`launch doctor`: examines a cluster before anything is started on it."""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import click

from launcher.caller.standard_output import write_out
from launcher.caller.working_directory import working_directory
from launcher.commands import options
from launcher.console.console import STDOUT
from launcher.console.terminal import Look
from launcher.doctor.checks.network import gradients
from launcher.doctor.diagnosis import diagnosed
from launcher.doctor.examine import Doctor
from launcher.doctor.findings import Severity
from launcher.doctor.report import as_record, as_text
from launcher.errors import EXIT_DONE, EXIT_HOST
from launcher.hosts.all_hosts import Hosts
from launcher.hosts.attending import StopRequestedError
from launcher.hosts.inbox import Inbox, signals_into
from launcher.hosts.own_processes import end_what_is_left
from launcher.run.request import Request, requested_cluster

EPILOG = """\b
Say the same as for the start that is to come: the cluster file, --env, and COMMAND if you give one.
Nothing is started and nothing is left behind; the ports that the workers would get are held meanwhile.

\b
Examples:
  {launch} doctor -c my_cluster.yaml
  {launch} doctor -c my_cluster.yaml --import --gradient-mb 98 -- train.py --epochs 3
  {launch} doctor --workers 2

\b
Exit codes: 0 no errors (there may be warnings), 2 usage or cluster file, 3 errors were found, 130 interrupted.
"""


@click.command(cls=options.LaunchCommand, context_settings=options.BEFORE_COMMAND, epilog=EPILOG)
@options.cluster
@options.hosts
@options.workers
@click.option(
    "--import",
    "import_tensorflow",
    is_flag=True,
    help="Also import TensorFlow everywhere, and see which GPUs it finds (takes some seconds).",
)
@click.option(
    "--gradient-mb",
    type=click.FloatRange(min=0, min_open=True),
    metavar="MB",
    help="What your model's gradients measure (4 bytes a weight), for the estimate of a step.",
)
@click.option("--json", "as_json", is_flag=True, help="For machines: all that was found out, as one object on stdout.")
@options.runs_dir
@options.env
@options.python
@click.option("-v", "--verbose", is_flag=True, help="Show who reaches whom, and how fast, also where all is well.")
@options.no_color
@options.command
def command(import_tensorflow: bool, gradient_mb: float | None, **given: Any) -> None:
    """Examine the hosts of a cluster and the network between them; tell what is wrong, why it matters, what to do."""
    raise SystemExit(doctor(options.request(**given), import_tensorflow, gradient_mb))


def doctor(request: Request, import_tensorflow: bool, gradient_mb: float | None) -> int:
    """Examine, report, and return the exit code.

    Raises:
        UsageError: the cluster file has mistakes, or asks for something impossible.
    """
    cluster = requested_cluster(request)
    if sys.stderr.isatty():
        sys.stderr.write(f"examining {', '.join(host.name for host in cluster.hosts)} ...\n")
    inbox: Inbox = SimpleQueue()
    try:
        with signals_into(inbox), Hosts(cluster.hosts, inbox, cluster.timeouts.lease) as hosts:
            doctor = Doctor(cluster, Path(working_directory(), request.runs_dir), hosts, inbox)
            examination = doctor.examine(import_tensorflow, gradients(cluster.commands, gradient_mb))
    except StopRequestedError as stopped:
        return 128 + stopped.signal
    finally:
        end_what_is_left()
    findings = diagnosed(examination)
    exit_code = EXIT_HOST if any(each.severity is Severity.ERROR for each in findings) else EXIT_DONE
    if request.as_json:
        write_out(json.dumps(as_record(examination, findings, exit_code)) + "\n")
    else:
        color = Look.of(STDOUT, os.environ, request.no_color).colour
        width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
        write_out(as_text(examination, findings, verbose=request.verbose, width=width, color=color))
    return exit_code
