"""The command line: chooses the command, and turns exceptions into exit codes."""

from __future__ import annotations

import contextlib
import io
import sys
from importlib import import_module
from typing import NoReturn

import click

from launcher.caller.called_as import launch_command
from launcher.caller.standard_output import write_error
from launcher.caller.working_directory import remember_working_directory
from launcher.cluster.redaction import redacted_text
from launcher.errors import EXIT_HOST, EXIT_USAGE, ClusterFileError, LaunchError
from launcher.hosts.shortage import of_this_machine
from launcher.wording import harmless

OTHER_COMMANDS = ("collect", "doctor", "leftovers")


def main() -> NoReturn:
    """Run the command line; exceptions become exit codes."""
    with contextlib.suppress(OSError):  # a command that needs it reports the error; not all do
        remember_working_directory()
    try:
        command, name, arguments = chosen_command(sys.argv[1:])
        command.main(arguments, prog_name=name, standalone_mode=False)
    except ClusterFileError as error:
        leave(error.exit_code, str(error))  # without a prefix: editors look for file:line:column at the start of a line
    except LaunchError as error:
        leave(error.exit_code, "\n".join(f"launch: {line}" for line in str(error).splitlines()))
    except click.ClickException as error:
        said = io.StringIO()
        error.show(said)
        leave(EXIT_USAGE, said.getvalue().rstrip("\n"))
    except (click.Abort, KeyboardInterrupt):
        leave(130)
    except (OSError, RuntimeError) as error:  # click.Abort is a RuntimeError, so this comes after it
        short = of_this_machine(error)
        if short is None:
            raise
        leave(EXIT_HOST, f"launch: {short[0]}\nlaunch:   What to do: {short[1]}")
    leave(0)


def chosen_command(words: list[str]) -> tuple[click.Command, str, list[str]]:
    """The command that the first word names (else `run`), its full name, and its arguments.

    A program with the name of a command can be run after `--`.
    """
    first = words[0] if words else ""
    name = launch_command()
    if first in OTHER_COMMANDS:
        return command_in(first, name), f"{name} {first}", words[1:]
    return command_in("run", name), name, words[1:] if first == "run" else words


def command_in(module: str, launch_name: str) -> click.Command:
    """Import only the module of this command: each needs other libraries."""
    command: click.Command = import_module(f"launcher.commands.{module}").command
    command.epilog = (command.epilog or "").replace("{launch}", launch_name)
    return command


def leave(code: int, complaint: str = "") -> NoReturn:
    """Exit with a code, after a message on stderr."""
    if complaint:
        write_error(harmless(redacted_text(complaint)))
    raise SystemExit(code)
