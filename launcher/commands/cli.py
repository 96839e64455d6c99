"""The command line: which command is meant, and the exit code of whatever it comes to."""

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
    with contextlib.suppress(OSError):  # told by who needs it: not everything does
        remember_working_directory()
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
        return command_in(first, name), f"{name} {first}", words[1:]
    return command_in("run", name), name, words[1:] if first == "run" else words


def command_in(module: str, launch_name: str) -> click.Command:
    """Only the module of this command is imported: none needs what the others need."""
    command: click.Command = import_module(f"launcher.commands.{module}").command
    command.epilog = (command.epilog or "").replace("{launch}", launch_name)
    return command


def leave(code: int, complaint: str = "") -> NoReturn:
    """End the process with a code, a complaint on stderr before it."""
    if complaint:
        write_error(harmless(redacted_text(complaint)))
    raise SystemExit(code)
