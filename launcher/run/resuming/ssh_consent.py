"""Options of ssh can start programs here, so those of a run that was made elsewhere are shown, and asked about."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

import click

from launcher.cluster.redaction.commands import redacted_words
from launcher.errors import UsageError
from launcher.run_directory.directory import RunDirectory
from launcher.run_directory.state import RunState
from launcher.run_directory.whole_files import shown
from launcher.wording import harmless_line

STDIN, STDERR = 0, 2


def ask_for_options(directory: RunDirectory, state: RunState, options: Mapping[str, Sequence[str]]) -> None:
    """Return if the user wants them to be used, or if there is nothing to ask. `options`: host -> words for ssh.

    Raises:
        UsageError: the user does not, or cannot be asked.
    """
    shown_options = {host: shlex.join(redacted_words(words)) for host, words in options.items() if words}
    told = [f"  {harmless_line(f'{host}: {words}')}" for host, words in shown_options.items()]
    if not told or directory.is_made_here(state):
        return
    here, there = os.uname().nodename, state.launcher.host
    whence = (
        f"was made on {harmless_line(there)}, not on {here}" if there not in ("", here) else "was made in another place"
    )
    question = "\n".join(
        [f"run {shown(Path(directory.name))} {whence}, and its options for ssh may start programs here:", *told]
    )
    if not (os.isatty(STDIN) and os.isatty(STDERR)):
        raise UsageError(f"{question}\nLook at them; if you want them to be used, add --trust-ssh-options")
    click.echo(question, err=True)
    if not click.confirm("Use these options?", default=False, err=True):
        raise UsageError("nothing was started")
