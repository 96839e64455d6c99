"""`scripts/background`: runs that outlive the login, in tmux where it is, else detached. Python 3.9 or later."""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

from background_record import PLACE, BackgroundError, Run, named, read, runs, started_at

SCRIPTS = Path(__file__).resolve().parent
LOOK = 0.2
"""Seconds between two looks at a run that is awaited."""
START = 10.0
"""Seconds that the start of a program may take."""
EXIT_USAGE, EXIT_INTERRUPTED = 2, 130
EPILOG = """\
`start` keeps the directory and the environment that it is called in. Where tmux is installed the run gets a terminal
of its own, which `attach` shows (Ctrl-B, then D leaves it); without tmux `attach` follows the log (Ctrl-C leaves it).
`stop` does what Ctrl-C does: the launcher stops its workers, which may save, and ends. `stop --now` lets it kill them.
What a run writes is in ~/.tf-launch/background/NAME.log.

On a machine that ends all of a user's processes at logout (KillUserProcesses of systemd), call once:
loginctl enable-linger

examples:
  scripts/background start --name digits -- launch --cluster two_hosts.yaml --max-restarts 3
  scripts/background status
  scripts/background attach digits
  scripts/background stop digits
"""


def main() -> int:
    """Do what the command line asks; the exit code."""
    options = parsed(sys.argv[1:])
    try:
        done: int = options.act(options)
    except BackgroundError as error:
        print(f"background: {error}", file=sys.stderr)
        return EXIT_USAGE
    return done


def parsed(arguments: Sequence[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="background",
        description="Start a run that outlives the login, look at it, attach to it, stop it.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(required=True, metavar="start|status|attach|stop")
    start = commands.add_parser("start", help="start a command, such as `launch ...`")
    start.add_argument("--name", help="what the other commands call it (default: run, run-2...)")
    start.add_argument("--no-tmux", action="store_true", help="no terminal for it, even where tmux is")
    start.add_argument("command", nargs=argparse.REMAINDER, metavar="[--] COMMAND ...")
    start.set_defaults(act=start_run)
    for name, act, what in (
        ("status", show_status, "the runs and how they stand"),
        ("attach", attach, "see what a run writes, now and from now on"),
        ("stop", stop, "interrupt a run, as Ctrl-C does, and wait until it has ended"),
    ):
        each = commands.add_parser(name, help=what)
        each.add_argument("name", nargs="?", help="the run; not needed while only one is alive")
        each.set_defaults(act=act)
        if name == "stop":
            each.add_argument(
                "--now", action="store_true", help="interrupt it a second time: workers are killed at once"
            )
    return parser.parse_args(arguments)


# ---- start
def start_run(options: argparse.Namespace) -> int:
    """Start a command in the background, and return once it runs."""
    command = options.command[1:] if options.command[:1] == ["--"] else options.command
    if not command:
        raise BackgroundError("say what to start: scripts/background start -- launch --cluster FILE")
    PLACE.mkdir(mode=0o700, parents=True, exist_ok=True)
    run = Run(
        free_name(options.name), program(command), str(Path.cwd()), time.time(), has_tmux() and not options.no_tmux
    )
    run.save()
    run.log.write_bytes(b"")
    run.log.chmod(0o600)
    start_in_tmux(run) if run.tmux else start_detached(run)
    run = await_start(run)
    print(
        f"{run.name}: started (process {run.program[0]}), {'in tmux' if run.tmux else 'detached'}; its log is {run.log}"
    )
    print(f"  see it: scripts/background attach {run.name}    end it: scripts/background stop {run.name}")
    return 0


def free_name(wanted: str | None) -> str:
    """The name that the user wants, if no living run has it; else one that is free."""
    alive = {run.name for run in runs() if run.is_alive}
    if wanted is None:
        return next(name for n in range(1, len(alive) + 2) if (name := f"run-{n}" if n > 1 else "run") not in alive)
    if not wanted or wanted.startswith((".", "-")) or any(not (each.isalnum() or each in "._-") for each in wanted):
        raise BackgroundError(
            f"--name {wanted}: letters, digits, '.', '_' and '-' are allowed, '.' and '-' not in front"
        )
    if wanted in alive:
        raise BackgroundError(f"{wanted} is running already: stop it first (scripts/background stop {wanted})")
    return wanted


def program(command: Sequence[str]) -> list[str]:
    """The command; `launch` is that of this checkout where none is installed."""
    if command[0] == "launch" and shutil.which("launch") is None:
        return [str(SCRIPTS / "launch"), *command[1:]]
    if shutil.which(command[0]) is None:
        raise BackgroundError(f"{command[0]}: there is no such program")
    return list(command)


def has_tmux() -> bool:
    """Whether it is installed."""
    return shutil.which("tmux") is not None


def keeping(run: Run) -> list[str]:
    """The command that stays with a run to its end."""
    return [sys.executable, "-Es", str(SCRIPTS / "background_runs.py"), "stay-with", run.name]


def start_detached(run: Run) -> None:
    """In a session of its own: no terminal, no hangup."""
    with run.log.open("ab") as log:
        subprocess.Popen(keeping(run), stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)


def start_in_tmux(run: Run) -> None:
    """In a terminal of its own, all of whose output goes to the log, too."""
    tmux = ["tmux", "-L", run.socket]
    gate = PLACE / f"{run.name}.gate"
    gate.unlink(missing_ok=True)
    os.mkfifo(gate, 0o600)
    try:
        size = ["-x", "200", "-y", "50"]
        checked([*tmux, "new-session", "-d", "-s", "run", *size, *keeping(run), str(gate)])
        checked([*tmux, "pipe-pane", "-t", "run", f"exec cat >>{shlex.quote(str(run.log))}"])
        open_gate(gate)
    finally:
        gate.unlink()


def open_gate(gate: Path) -> None:
    """Let the one who waits at a pipe go on. Opened for writing it would wait for ever if nobody came."""
    until = time.monotonic() + START
    while True:
        try:
            os.close(os.open(gate, os.O_WRONLY | os.O_NONBLOCK))
        except OSError:  # nobody waits yet
            if time.monotonic() > until:
                raise BackgroundError(f"tmux has started nothing within {START:g} s; try start --no-tmux") from None
            time.sleep(0.01)
        else:
            return


def checked(argv: Sequence[str]) -> None:
    """Run a command that must succeed."""
    done = subprocess.run(argv, capture_output=True, text=True)
    if done.returncode:
        raise BackgroundError(f"{shlex.join(argv[:4])}: {done.stderr.strip() or done.returncode}; try start --no-tmux")


def await_start(run: Run) -> Run:
    """The run once its program has started."""
    until = time.monotonic() + START
    while time.monotonic() < until:
        found = read(run.name)
        if found is not None and found.program[0]:
            return found
        time.sleep(0.01)
    raise BackgroundError(f"{run.name} did not start within {START:g} s; its log is {run.log}")


def stay_with(name: str, gate: str | None) -> NoReturn:
    """Beside the program, from its start to its end: write down which process it is, and how it ended.

    With a `gate`, a pipe, wait there first: until somebody writes down what comes on the terminal.
    """
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, lambda *_: None)  # they are for the program; unlike SIG_IGN this is not inherited
    if gate is not None:
        Path(gate).read_text()
    run = read(name)
    assert run is not None
    process = subprocess.Popen(run.command, cwd=run.directory)
    keeper, child = (os.getpid(), process.pid)
    run = replace(run, program=(child, started_at(child)), keeper=(keeper, started_at(keeper)))
    run.save()
    code = process.wait()
    replace(run, exit_code=128 - code if code < 0 else code).save()
    sys.exit(0)


# ---- status, attach, stop
def show_status(options: argparse.Namespace) -> int:
    """A line for each run, or for the one that is named."""
    found = [named(options.name)] if options.name else list(runs())
    for run in found:
        print(f"{run.name}: {state(run)}  {shlex.join(run.command)}  (log: {run.log})")
    if not found:
        print(f"no run in {PLACE}")
    return 0


def state(run: Run) -> str:
    """How it stands, in words."""
    if run.is_alive:
        return f"running for {span(time.time() - run.began)} (process {run.program[0]})"
    if run.exit_code is None:
        return "gone: its end was not seen (killed, or the machine was restarted)"
    return f"ended with exit code {run.exit_code}"


def attach(options: argparse.Namespace) -> int:
    """Show a run's terminal, or follow its log."""
    run = named(options.name)
    if run.tmux and run.is_alive and sys.stdin.isatty() and sys.stdout.isatty():
        os.execvp("tmux", ["tmux", "-L", run.socket, "attach-session", "-t", "run"])
    try:
        for text in followed(run):
            sys.stdout.buffer.write(text)
            sys.stdout.buffer.flush()
    except KeyboardInterrupt:
        print(f"\n{run.name} goes on", file=sys.stderr)
        return 0
    print(f"{run.name}: {state(named(run.name))}", file=sys.stderr)
    return 0


def followed(run: Run) -> Iterator[bytes]:
    """What the log holds, and what comes until the run has ended."""
    with run.log.open("rb") as log:
        while True:
            alive = named(run.name).is_alive
            if text := log.read():
                yield text
            if not alive:
                return
            time.sleep(LOOK)


def stop(options: argparse.Namespace) -> int:
    """Interrupt a run, and return once it has ended."""
    run = named(options.name)
    if not run.is_alive:
        print(f"{run.name}: {state(run)}")
        return 0
    interrupt(run)
    if options.now:
        time.sleep(LOOK)  # two signals in one moment would be one
        interrupt(run)
    print(f"{run.name}: interrupted; waiting for its end (Ctrl-C stops the waiting, not the run)", flush=True)
    try:
        while (run := named(run.name)).is_alive:
            time.sleep(LOOK)
    except KeyboardInterrupt:
        print(f"{run.name} is still ending; scripts/background stop --now {run.name} lets it kill its workers")
        return EXIT_INTERRUPTED
    print(f"{run.name}: {state(run)}")
    return 0


def interrupt(run: Run) -> None:
    """As Ctrl-C does, but for the one process."""
    pid, at = run.program
    if started_at(pid) == at:
        os.kill(pid, signal.SIGINT)


def span(seconds: float) -> str:
    """A length of time for a person."""
    for unit, length in (("days", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {unit}"
    return f"{max(0.0, seconds):.0f} s"


if __name__ == "__main__":
    if sys.argv[1:2] == ["stay-with"]:
        stay_with(sys.argv[2], sys.argv[3] if len(sys.argv) > 3 else None)
    sys.exit(main())
