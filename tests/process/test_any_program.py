"""A program that never heard of the launcher runs as if it had been started by hand."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
import venv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.launching import Launch, program, signals_of

Start = Callable[..., Launch]

ARGUMENTS = (
    "",
    " ",
    "two words",
    "it's",
    'say "hi"',
    "line\nbreak",
    "$HOME `id` $(id) \\ * ? ~",
    "--workers",
    "-h",
    "--",
    "äöü 雪 \U0001f600",
    "\udcff\udcfe no utf-8",
)


def test_every_argument_arrives_byte_by_byte(launch: Start) -> None:
    report = launch("--workers", "1", *program("report", *ARGUMENTS)).report()

    assert report["argv"] == [os.fsencode(each).decode("latin-1") for each in ARGUMENTS]


@pytest.mark.parametrize("task", ["worker-0", "worker-1"])
def test_a_worker_runs_where_the_launcher_was_started(launch: Start, tmp_path: Path, task: str) -> None:
    here = tmp_path / "a place\nof its own"
    here.mkdir()

    assert launch("--workers", "2", *program("report"), cwd=here).report(task)["cwd"] == str(here)


def test_a_program_that_reads_stdin_finds_its_end(launch: Start) -> None:
    started = launch("--workers", "1", *program("report"), stdin=subprocess.PIPE)

    assert started.report()["stdin"] == ""


def test_a_worker_inherits_the_environment(launch: Start) -> None:
    report = launch("--workers", "1", *program("report"), env={"MY_SETTING": "as it was"}).report()

    assert report["env"]["MY_SETTING"] == "as it was"


def test_a_worker_has_three_open_files_and_a_session_of_its_own(launch: Start) -> None:
    report = launch("--workers", "1", *program("report")).report()

    assert report["open"] == [0, 1, 2]
    assert report["session"]


def test_a_file_that_the_launchers_parent_left_open_is_not_open_in_a_worker(launch: Start, tmp_path: Path) -> None:
    with (tmp_path / "left open").open("w") as file:
        report = launch("--workers", "1", *program("report"), pass_fds=[file.fileno()]).report()

    assert report["open"] == [0, 1, 2]


def test_a_worker_keeps_the_users_umask(launch: Start) -> None:
    assert launch("--workers", "1", *program("report"), umask=0o027).report()["umask"] == 0o027


def deaf() -> None:
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        if number < signal.SIGRTMIN:
            signal.signal(number, signal.SIG_IGN)


def blocked() -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())


@pytest.mark.parametrize("before", [None, deaf, blocked], ids=["plain", "ignored", "blocked"])
def test_no_signal_is_ignored_or_blocked_in_a_worker(launch: Start, before: Callable[[], None] | None) -> None:
    report = launch("--workers", "2", *program("report"), preexec_fn=before).report("worker-1")

    # Python itself ignores these two in every program
    assert signals_of(report["ignored"]) <= {signal.SIGPIPE, signal.SIGXFSZ}
    assert signals_of(report["blocked"]) == set()


def test_hosts_may_be_listed_without_a_file(launch: Start) -> None:
    started = launch("-H", "localhost:2", "--", "sh", "-c", 'echo "$TF_CONFIG"')
    assert started.succeeded()

    configs = [json.loads(started.log(task)) for task in ("worker-0", "worker-1")]
    assert len(configs[0]["cluster"]["worker"]) == 2
    assert [config["task"]["index"] for config in configs] == [0, 1]


def test_the_plan_of_listed_hosts_is_shown(launch: Start) -> None:
    shown = launch("-H", "localhost,gpu-a:2", "--dry-run", "--json", "--", "true")
    assert shown.succeeded()

    tasks = json.loads(shown.stdout)["tasks"]
    assert [(each["task"], each["host"]) for each in tasks] == [
        ("worker-0", "localhost"),
        ("worker-1", "gpu-a"),
        ("worker-2", "gpu-a"),
    ]


def test_a_shell_command_runs(launch: Start) -> None:
    started = launch("--workers", "1", "--", "sh", "-c", "echo $LAUNCH_ATTEMPT | sed s/0/zero/")

    assert started.succeeded()
    assert started.log("worker-0") == b"zero\n"


def test_a_program_of_the_working_directory_runs(launch: Start, tmp_path: Path) -> None:
    binary = tmp_path / "my program"
    binary.write_text("#!/bin/sh\necho this is $0\n")
    binary.chmod(0o700)

    started = launch("--workers", "1", "--", "./my program")

    assert started.succeeded()
    assert started.log("worker-0") == b"this is ./my program\n"


@pytest.mark.parametrize("command", [("train.py", "--flag"), ("--", "python3", "train.py", "--flag")])
def test_a_python_program_runs_under_the_launchers_own_python_and_is_said_to(
    launch: Start, tmp_path: Path, command: tuple[str, ...]
) -> None:
    (tmp_path / "train.py").write_text("import json, sys; print(json.dumps([sys.executable, sys.argv]))")

    started = launch("--workers", "1", *command)

    assert started.succeeded()
    assert json.loads(started.log("worker-0")) == [sys.executable, ["train.py", "--flag"]]
    assert f"1 worker on localhost with {sys.executable} (tf-launch's own); run directory " in started.stderr


@pytest.fixture
def environment_of_its_own(tmp_path: Path) -> Path:
    """A virtual environment beside the launcher's."""
    venv.create(tmp_path / "venv", symlinks=True)
    return tmp_path / "venv"


WHERE = "import sys; print(sys.prefix)"


@pytest.mark.parametrize(
    ("variable", "whose"), [("VIRTUAL_ENV", "virtual environment"), ("CONDA_PREFIX", "conda environment")]
)
def test_a_python_program_runs_in_the_environment_that_is_active(
    launch: Start, environment_of_its_own: Path, variable: str, whose: str
) -> None:
    active = {variable: str(environment_of_its_own)}

    started = launch("--workers", "1", "--", "python", "-c", WHERE, env=active)

    assert started.succeeded()
    assert started.log("worker-0").decode() == f"{environment_of_its_own}\n"
    assert f"1 worker on localhost with venv/bin/python (the active {whose}); run directory " in started.stderr


def test_an_environment_that_is_gone_is_not_active(launch: Start, tmp_path: Path) -> None:
    started = launch("--workers", "1", "--", "python", "-c", WHERE, env={"VIRTUAL_ENV": str(tmp_path / "gone")})

    assert started.succeeded()
    assert started.log("worker-0").decode() == f"{sys.prefix}\n"


def test_the_python_that_the_command_line_names_wins(
    launch: Start, cluster: Callable[..., tuple[str, str]], environment_of_its_own: Path
) -> None:
    options = *cluster(workers=1, python="/no/such/python"), "--python", "venv/bin/python"

    started = launch(*options, "--", "python", "-c", WHERE, env={"VIRTUAL_ENV": "/no/such/environment"})

    assert started.succeeded()
    assert started.log("worker-0").decode() == f"{environment_of_its_own}\n"


@pytest.mark.parametrize("named", ["venv/bin/python", "no-such-python", "."])
def test_a_python_that_is_not_there_is_told_before_the_start(launch: Start, named: str) -> None:
    started = launch("--workers", "1", "--python", named, "--", "python", "-c", WHERE)

    assert started.wait() == 2
    assert f"--python {named}: there is no program " in started.stderr
    assert not started.runs.exists()


def test_what_is_missing_is_installed_for_the_python_that_ran(launch: Start, environment_of_its_own: Path) -> None:
    python = str(environment_of_its_own / "bin" / "python")

    started = launch("--workers", "1", "--", python, "-c", "import no_such_module")

    assert started.wait() == 1
    assert f"install no_such_module for {python} on localhost" in started.stderr


def test_an_option_of_the_program_is_not_the_launchers(launch: Start) -> None:
    command = program("report", "--workers", "7", "--help")[1:]

    assert launch("--workers", "1", *command).report()["argv"] == ["--workers", "7", "--help"]


def test_run_may_be_written_in_front(launch: Start, tmp_path: Path, environment: dict[str, str]) -> None:
    argv = [sys.executable, "-m", "launcher", "run", "--workers", "1", "--", "echo", "hi"]
    done = subprocess.run(argv, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)

    assert done.stdout == "[worker 0] hi\n"


# ---- programs that cannot run
def test_a_missing_program_is_named(launch: Start) -> None:
    started = launch("--workers", "2", "--", "no-such-program")

    assert started.wait() == 1
    assert "worker 0 on localhost could not be started: cannot run no-such-program: No such file" in started.stderr


@pytest.mark.parametrize(
    ("content", "mode", "said", "remedy"),
    [
        ("#!/bin/sh\n", 0o600, "Permission denied (it is not executable)", "chmod +x ./train on localhost"),
        ("echo hi\n", 0o700, "Exec format error (its first line has no #!)", "give ./train a first line"),
        ("", 0o700, "Exec format error (it is empty)", None),
        ("\x7fELF\x01", 0o700, "Exec format error (it is built for another kind of machine)", None),
        ("#!/bin/nosuch\r\n", 0o700, "No such file or directory (its first line is '#!/bin/nosuch\\r', and that", None),
    ],
)
def test_a_file_that_cannot_be_run_is_named_once_with_the_reason_and_the_remedy(
    launch: Start, tmp_path: Path, content: str, mode: int, said: str, remedy: str | None
) -> None:
    program = tmp_path / "train"
    program.write_text(content, newline="")
    program.chmod(mode)

    started = launch("--workers", "1", "--", "./train")

    assert started.wait() == 1
    lines = started.stderr.splitlines()
    assert lines[0].startswith(f"[launch] worker 0 on localhost could not be started: cannot run ./train: {said}")
    assert [line.startswith(f"[launch] What to do: {remedy}") for line in lines[1:]] == ([True] if remedy else [])


def test_a_directory_that_is_no_program_is_called_one(launch: Start, tmp_path: Path) -> None:
    started = launch("--workers", "1", "--", f"{tmp_path}/")

    assert started.wait() == 1
    assert "Permission denied (it is a directory)" in started.stderr


def test_a_missing_script_is_told_before_the_start_with_the_nearest_name(launch: Start, tmp_path: Path) -> None:
    (tmp_path / "train.py").touch()

    started = launch("--workers", "2", "--", "python", "-u", "tarin.py")

    assert started.wait() == 2
    assert started.stderr == (
        f"launch: tarin.py: there is no such file in {tmp_path}, where the tasks of localhost start; "
        "did you mean train.py?\n"
    )
    assert not started.runs.exists()


def test_a_script_that_is_found_to_be_missing_later_is_named(launch: Start) -> None:
    started = launch("--workers", "2", "--", "sh", "-c", 'exec "$0" train.py', sys.executable)

    assert started.wait() == 1
    assert "train.py': [Errno 2] No such file" in started.last_words
    assert "check its spelling; a relative path begins at `workdir`" in started.last_words


def test_a_missing_working_directory_is_named(launch: Start, cluster: Callable[..., tuple[str, str]]) -> None:
    started = launch(*cluster(workdir="/no/such/directory"), "--", "true")

    assert started.wait() == 1
    assert "cannot enter the working directory /no/such/directory: No such file or directory" in started.stderr


def test_a_program_that_cannot_start_leaves_no_worker_behind(launch: Start, tmp_path: Path) -> None:
    """The first worker runs already when the second one's program turns out to be gone."""
    binary = tmp_path / "once"
    binary.write_text('#!/bin/sh\nrm "$0"\nexec sleep 1000\n')
    binary.chmod(stat.S_IRWXU)

    started = launch("--workers", "32", "--", str(binary))

    assert started.wait() == 1


def test_a_launcher_without_standard_streams_still_runs_its_workers(launch: Start, tmp_path: Path) -> None:
    def closed() -> None:
        os.closerange(0, 3)

    started = launch("--workers", "1", *program("report"), stdin=None, stdout=None, stderr=None, preexec_fn=closed)

    assert started.report()["open"] == [0, 1, 2]


def test_a_working_directory_that_is_gone_is_told(launch: Start, tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()

    started = launch("--workers", "1", "--", "true", cwd=gone, preexec_fn=gone.rmdir)

    assert started.wait() == 2
    assert "Traceback" not in started.stderr
    assert "directory" in started.stderr


def test_a_limit_on_open_files_is_told(launch: Start) -> None:
    started = launch("--workers", "32", "--", "true", under=("sh", "-c", 'ulimit -n 40; exec "$@"', "sh"))

    assert started.wait() == 3
    assert "a process may have 40 open files on this machine" in started.stderr
    assert "ulimit -n" in started.stderr
    assert "Traceback" not in started.stderr


# ---- the training program that comes along
OWN_TRAINING = "import sys; print('the training of the user', sys.argv[1:])"
OURS_SAYS = "`python -m training` trains with MultiWorkerMirroredStrategy, which has only chief and worker tasks"


@pytest.fixture
def own_training(tmp_path: Path) -> Path:
    """A directory with a package of the user's that has the name of ours."""
    directory = tmp_path / "project"
    (directory / "training").mkdir(parents=True)
    (directory / "training" / "__init__.py").touch()
    (directory / "training" / "__main__.py").write_text(OWN_TRAINING)
    return directory


@pytest.mark.parametrize("found_by", ["working directory", "PYTHONPATH"])
def test_without_a_command_our_training_program_runs_also_where_the_user_has_one(
    launch: Start, own_training: Path, tmp_path: Path, found_by: str
) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_text("hosts: [{host: localhost, tasks: {worker: 1, ps: 1}}]\n")
    where: dict[str, Any] = (
        {"cwd": own_training} if found_by == "working directory" else {"env": {"PYTHONPATH": str(own_training)}}
    )

    started = launch("--cluster", file, **where)

    assert started.wait() == 1
    assert OURS_SAYS in started.log("ps-0").decode()


def test_a_user_who_names_a_training_program_gets_the_one_that_python_finds(launch: Start, own_training: Path) -> None:
    started = launch("--workers", "1", "--", "python", "-m", "training", "--epochs", "3", cwd=own_training)

    assert started.succeeded()
    assert "the training of the user ['--epochs', '3']" in started.log("worker-0").decode()
