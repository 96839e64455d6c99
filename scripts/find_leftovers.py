"""`scripts/leftovers`: what of tf-launch is left here or on other hosts; ends it on request. Python 3.9 or later."""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import over_ssh
from printing import finish, put
from words import amount, counted, harmless, shown, span

ANSWER = "\0tf-launch answer "
HERE = "this machine"
RUN_DIR = "~/.tf-launch/runs"
AT_ONCE = 32
LONGEST = 300
"""Characters of what a host complains of that are shown."""
EXIT_DONE, EXIT_USAGE, EXIT_HOST, EXIT_INTERRUPTED = 0, 2, 3, 130
EPILOG = """\
Processes are found by the run id in their environment (LAUNCH_RUN_ID), never by a program's name, and only your own are
looked at. RUN is the run id, or, where no other run has that name, the name of the run's directory.
While the agent of a run lives, the run is under way and nothing of it is left over: end it with Ctrl-C where
it was launched, or with --stop, which asks its launcher to do so.

examples:
  scripts/leftovers                                  what is on this machine
  scripts/leftovers gpu-a gpu-b                      what is on these hosts
  scripts/leftovers gpu-a --stop 20261121-101529-two_hosts
  scripts/leftovers gpu-a --remove 20261121-101529-two_hosts

exit codes: 0 done, 2 usage, 3 a host could not be asked or something could not be ended or removed
"""


class HostFailedError(Exception):
    """A host could not be asked; the message says why."""


NUMBER = (int, float)
PROCESS = {"run": str, "pid": int, "age": NUMBER, "words": str, "agent": (int, type(None))}
DIRECTORY = {"name": str, "path": str, "bytes": int, "age": NUMBER, "live": bool}
ANSWERS = {
    "list": {"processes": [PROCESS], "directories": [DIRECTORY], "run_dir": str},
    "stop": {"left": [int]},
    "remove": {"problem": str},
}
"""What a host answers to each request."""


@dataclass(frozen=True)
class Found:
    """What is on one host."""

    host: str
    processes: Sequence[dict[str, Any]]
    directories: Sequence[dict[str, Any]]
    run_dir: str


def main() -> int:
    """Look, show, and do what is asked; the exit code."""
    options = parsed(sys.argv[1:])
    hosts = options.hosts or [HERE]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        answers = list(pool.map(lambda host: looked_at(host, options.run_dir), hosts))
    found = [answer for answer in answers if isinstance(answer, Found)]
    stopping, removing = (named and run_called(named, found) for named in (options.stop, options.remove))
    failed = False
    for answer in answers:
        if isinstance(answer, HostFailedError):
            complain(str(answer))
            failed = True
            continue
        show(answer)
        if stopping:
            failed |= not stop(answer, stopping, options)
        if removing:
            failed |= not remove(answer, removing, options)
    return EXIT_HOST if failed else EXIT_DONE


def parsed(arguments: Sequence[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="leftovers",
        description="List what runs of tf-launch have left on this machine, or on hosts behind ssh.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("hosts", nargs="*", metavar="HOST", help="as for ssh: an alias, a host, user@host")
    parser.add_argument("--stop", metavar="RUN", help="end a run: SIGTERM, then SIGKILL")
    parser.add_argument("--remove", metavar="RUN", help="delete the directories of a run that is not under way")
    parser.add_argument("--grace", type=float, default=5.0, metavar="SECONDS", help="until SIGKILL (default: 5)")
    parser.add_argument(
        "--run-dir", default=RUN_DIR, metavar="DIR", help=f"`run_dir` of the hosts (default: {RUN_DIR})"
    )
    parser.add_argument("--yes", action="store_true", help="do not ask before something is ended or deleted")
    options = parser.parse_args(arguments)
    if wrong := [host for host in options.hosts if host.startswith("-")]:
        parser.error(f"{wrong[0]}: this is no host")
    return options


# ---- asking
def asked(host: str, request: dict[str, Any]) -> dict[str, Any]:
    """What the program on a host answers.

    Raises:
        HostFailedError: it could not be run there.
    """
    text = over_ssh.program("leftovers")
    argv = [sys.executable, "-I", "-S", "-c", text.decode()] if host == HERE else over_ssh.command(host, text)
    given = json.dumps(request).encode()
    if shutil.which(argv[0]) is None:
        raise HostFailedError(f"{host}: {over_ssh.NO_SSH}")
    out, err, code = printed(host, argv, given if host == HERE else text + given)
    _, mark, answer = out.rpartition(ANSWER)
    if not mark:
        said = err.strip().splitlines()
        raise HostFailedError(f"{host}: {said[-1][:LONGEST] if said else f'no answer (exit code {code})'}")
    try:
        found = json.loads(answer)
    except (ValueError, RecursionError):
        found = None
    if not fits(found, ANSWERS[request["do"]]):
        raise HostFailedError(f"{host}: it answered with something that nobody understands")
    told: dict[str, Any] = found
    return told


def printed(host: str, argv: Sequence[str], given: bytes) -> tuple[str, str, int]:
    """What a program prints on stdout and stderr, and its exit code.

    Raises:
        HostFailedError: it prints without end.
    """
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        with subprocess.Popen(over_ssh.bounded(argv), stdin=subprocess.PIPE, stdout=out, stderr=err) as process:
            process.communicate(given)
        if over_ssh.went_too_far(process):
            raise HostFailedError(f"{host}: {over_ssh.NO_END}; {over_ssh.NO_END_REMEDY}")
        for file in (out, err):
            file.seek(0)
        return out.read().decode("utf-8", "replace"), err.read().decode("utf-8", "replace"), process.returncode


def fits(value: Any, shape: Any) -> bool:
    """Whether a value has the types of a shape: a type or several, a list of shapes, or keys that each have one."""
    if isinstance(shape, dict):
        return isinstance(value, dict) and value.keys() == shape.keys() and all(fits(value[k], shape[k]) for k in shape)
    if isinstance(shape, list):
        return isinstance(value, list) and all(fits(each, shape[0]) for each in value)
    return isinstance(value, shape)


def looked_at(host: str, run_dir: str) -> Found | HostFailedError:
    """What is there."""
    try:
        return Found(host, **asked(host, {"do": "list", "run_dir": run_dir}))
    except HostFailedError as error:
        return error


# ---- showing
def show(found: Found) -> None:
    """What is on a host, for a person."""
    tell(f"{found.host}:")
    for run, members in groupby(sorted(found.processes, key=lambda each: str(each["run"])), lambda each: each["run"]):
        show_run(run, list(members))
    for each in found.directories:
        state = "  its run is under way" if each["live"] else ""
        tell(f"  {shown(each['path'])}  {amount(each['bytes'])}, last changed {span(each['age'])} ago{state}")
    if not found.processes and not found.directories:
        tell(f"  nothing: no process of a run, no directory of one in {found.run_dir}")


def show_run(run: str, members: Sequence[dict[str, Any]]) -> None:
    """The processes of one run."""
    alone = sum(not each["agent"] for each in members)
    state = f"{alone} of them left over: no agent above them lives" if alone else "its agent lives: it is under way"
    tell(f"  run {shown(run)}: {counted(len(members), 'process', 'processes')}, {state}")
    for each in members:
        tell(f"    {each['pid']:>8}  {span(each['age'])}  {shown(each['words'])}")


# ---- acting
def run_called(named: str, found: Sequence[Found]) -> str:
    """The id of the run that is meant: its digits may be left out where no other run has that name."""
    ids = {each["run"] for host in found for each in host.processes}
    ids |= {each["name"] for host in found for each in host.directories}
    meant = [named] if named in ids else sorted(each for each in ids if each.rpartition("-")[0] == named)
    if len(meant) > 1:
        complain(f"several runs are called {named}; name one of them with its digits: {', '.join(meant)}")
        sys.exit(EXIT_USAGE)
    return meant[0] if meant else named


def stop(found: Found, run: str, options: argparse.Namespace) -> bool:
    """End a run's processes on a host; whether none is left."""
    members = [each for each in found.processes if each["run"] == run]
    if not members:
        tell(f"{found.host}: no process of run {run}")
        return True
    note = "; its agent lives, so the launcher ends the run on all hosts" if any(e["agent"] for e in members) else ""
    if not agreed(f"{found.host}: end {counted(len(members), 'process', 'processes')}{note}?", options):
        return False
    return done(found.host, lambda: ended(found.host, run, options))


def ended(host: str, run: str, options: argparse.Namespace) -> str:
    """End them; what went wrong."""
    left = asked(host, {"do": "stop", "run": run, "grace": options.grace, "run_dir": options.run_dir})["left"]
    if left:
        return f"these processes could not be ended: {', '.join(map(str, left))}"
    tell(f"{host}: ended")
    return ""


def remove(found: Found, run: str, options: argparse.Namespace) -> bool:
    """Delete a run's directories on a host; whether that went well."""
    matching = [each for each in found.directories if each["name"] == run]
    if not matching:
        tell(f"{found.host}: no directory of run {run} in {found.run_dir}")
    removed = [remove_directory(found.host, each, options) for each in matching]
    return all(removed)


def remove_directory(host: str, directory: dict[str, Any], options: argparse.Namespace) -> bool:
    """Delete one; whether that went well."""
    if directory["live"]:
        complain(f"{host}: {shown(directory['path'])} stays: its run is under way")
        return False
    if not agreed(f"{host}: delete {shown(directory['path'])} ({amount(directory['bytes'])})?", options):
        return False

    def delete() -> str:
        request = {"do": "remove", "directory": directory["name"], "run_dir": options.run_dir}
        problem: str = asked(host, request)["problem"]
        return f"{shown(directory['path'])} was not removed: {problem}" if problem else ""

    if not done(host, delete):
        return False
    tell(f"{host}: removed")
    return True


def done(host: str, act: Callable[[], str]) -> bool:
    """Do something that says what went wrong; whether nothing did."""
    try:
        problem = act()
    except HostFailedError as error:
        complain(str(error))
        return False
    if problem:
        complain(f"{host}: {problem}")
    return not problem


def agreed(question: str, options: argparse.Namespace) -> bool:
    """Whether the user wants it; without a terminal only --yes says so."""
    if options.yes:
        return True
    if not sys.stdin.isatty():
        complain(f"{question} Say so with --yes")
        return False
    return input(harmless(f"{question} [y/N] ")).strip().lower() in ("y", "yes")


def tell(line: str) -> None:
    """A line of what was found or done."""
    put(harmless(line), sys.stdout)


def complain(text: str) -> None:
    """An error."""
    put(harmless(f"leftovers: {text}"), sys.stderr)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(EXIT_INTERRUPTED)
    finally:
        finish()
