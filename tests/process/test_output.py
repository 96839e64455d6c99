"""Raw bytes in files, whole prefixed lines on the console."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from support.launching import Launch, await_true, program

Start = Callable[..., Launch]
Cluster = Callable[..., tuple[str, str]]

GARBAGE = bytes(range(256)) * 40


@pytest.mark.parametrize(
    "data",
    [b"", b"\n", b"no newline at the end", GARBAGE, b"a\r\nb\r\n", b"\x00", b"10%\r20%\r100%\n", "雪".encode()[:2]],
)
def test_the_log_file_holds_exactly_what_the_worker_wrote(launch: Start, tmp_path: Path, data: bytes) -> None:
    (tmp_path / "data").write_bytes(data)
    started = launch("--workers", "1", "--", "cat", "data")

    assert started.wait() == 0
    assert started.log("worker-0") == data


def test_stdout_and_stderr_share_the_log_in_the_order_of_writing(launch: Start) -> None:
    started = launch("--workers", "1", "--", "sh", "-c", "echo 1; echo 2 >&2; echo 3")

    assert started.stdout == "[worker 0] 1\n[worker 0] 2\n[worker 0] 3\n"
    assert started.log("worker-0") == b"1\n2\n3\n"


def test_what_workers_print_alike_is_shown_for_each_of_them_and_kept_in_each_log(launch: Start) -> None:
    """How many lines that takes depends on how far apart they are."""
    started = launch("--workers", "3", "--", "echo", "alike")
    shown = {"[workers 0-2]": "012", "[workers 0-1]": "01", "[workers 1-2]": "12", "[workers 0, 2]": "02"}
    shown |= {f"[worker {n}]": str(n) for n in range(3)}

    assert started.succeeded()
    labels = [line.removesuffix(" alike") for line in started.stdout.splitlines()]
    assert sorted("".join(shown[label] for label in labels)) == ["0", "1", "2"]
    assert [started.log(f"worker-{n}") for n in range(3)] == [b"alike\n"] * 3


def test_each_workers_own_lines_can_be_asked_for(launch: Start) -> None:
    started = launch("--verbose", "--workers", "3", "--", "echo", "alike")

    assert sorted(started.stdout.splitlines()) == [f"[worker {n}] alike" for n in range(3)]


def test_a_line_without_an_end_is_shown_with_one(launch: Start) -> None:
    assert launch("--workers", "1", "--", "printf", "the end").stdout == "[worker 0] the end\n"


def test_a_progress_bar_is_shown_in_its_last_state(launch: Start) -> None:
    assert launch("--workers", "1", "--", "printf", r"10%%\r20%%\r100%%\n").stdout == "[worker 0] 100%\n"


def test_a_character_that_comes_in_pieces_is_whole_on_the_console(launch: Start) -> None:
    pieces = "import os, time\nfor b in 'ä雪\U0001f600\\n'.encode(): os.write(1, bytes([b])); time.sleep(0.02)"

    assert launch("--workers", "1", "--", sys.executable, "-c", pieces).stdout == "[worker 0] ä雪\U0001f600\n"


def test_a_line_of_ten_megabytes_is_one_line(launch: Start) -> None:
    long = "import os; d = b'x' * 10_000_000 + b'\\n'\nwhile d: d = d[os.write(1, d):]"
    started = launch("--workers", "1", "--", sys.executable, "-c", long)

    assert started.raw_stdout == b"[worker 0] " + b"x" * 10_000_000 + b"\n"
    assert len(started.log("worker-0")) == 10_000_001


def test_no_line_is_lost_or_spliced_while_two_workers_flood(launch: Start) -> None:
    count = 100_000
    started = launch("--workers", "2", *program("flood", str(count)))
    lines = started.raw_stdout.splitlines()

    for n in (0, 1):
        prefix = b"[worker %d] " % n
        own = [line.removeprefix(prefix) for line in lines if line.startswith(prefix)]
        assert own == [b"worker-%d %d" % (n, each) for each in range(count)]
    assert len(lines) == 2 * count


def test_thirty_two_workers_are_all_heard(launch: Start) -> None:
    started = launch("--workers", "32", "--", "sh", "-c", 'echo "$TF_CONFIG" | sed "s/.*index.: //; s/}}//"')

    assert started.succeeded()
    lines = started.stdout.splitlines()
    expected = {f"{f'[worker {n}]':<12}{n}" for n in range(32)}
    assert set(lines) == expected
    assert len(lines) == 32


def test_a_worker_that_closes_its_output_goes_on(launch: Start) -> None:
    started = launch("--workers", "1", "--", "sh", "-c", "echo hi; exec >&- 2>&-; echo lost; touch went-on")

    assert started.stdout == "[worker 0] hi\n"
    assert (started.runs.parent / "went-on").exists()


def test_what_a_background_child_writes_after_its_worker_is_kept(launch: Start, cluster: Cluster) -> None:
    late = "trap '' TERM; (sleep 0.1; echo late) & echo early"
    started = launch(*cluster(1, timeouts={"failure_grace": "10s"}), "--", "sh", "-c", late)

    assert started.stdout == "[worker 0] early\n[worker 0] late\n"
    assert started.log("worker-0") == b"early\nlate\n"


def test_a_worker_that_ends_at_once_is_a_success(launch: Start) -> None:
    started = launch("--workers", "2", "--", "true")

    assert started.succeeded()
    assert started.stdout == ""


def test_a_worker_may_empty_its_own_log(launch: Start) -> None:
    """A truncated file must not stop the run: the agent reads by offset."""
    started = launch("--workers", "1", "--", "sh", "-c", ": > /proc/self/fd/1; echo x; : > /proc/self/fd/1; echo after")

    assert started.wait() == 0


def test_the_workers_own_colours_do_not_reach_a_file(launch: Start) -> None:
    started = launch("--workers", "1", "--", "printf", r"\033]0;title\007plain\n")

    assert started.wait() == 0
    assert started.log("worker-0") == b"\033]0;title\007plain\n"


# ---- which stream, how much
def test_the_launchers_own_words_go_to_stderr(launch: Start) -> None:
    started = launch("--workers", "1", "--", "echo", "hi")

    assert started.stdout == "[worker 0] hi\n"
    assert all(line.startswith("[launch] ") for line in started.stderr.splitlines())


def test_quiet_shows_the_chiefs_log_only(launch: Start, cluster: Cluster) -> None:
    started = launch("--quiet", *cluster(tasks={"chief": 1, "worker": 2}), "--", "sh", "-c", "echo $TF_CONFIG")

    assert started.succeeded()
    assert len(started.stdout.splitlines()) == 1
    assert started.stdout.startswith("[chief 0] ")
    assert started.stderr == ""


def test_quiet_still_tells_of_a_failure(launch: Start, cluster: Cluster) -> None:
    started = launch("--quiet", *cluster(), *program("fail", "worker-1", "raise"))

    assert started.wait() == 1
    assert "worker 1 on localhost failed (exit code 1): ValueError: labels out of range" in started.stderr


def test_json_leaves_stdout_to_the_result(launch: Start) -> None:
    started = launch("--json", "--workers", "1", "--", "echo", "hi")
    result = json.loads(started.stdout)

    assert result["exit_code"] == 0
    assert result["root_cause"] is None
    assert Path(result["run_directory"]) == started.run_directory
    assert "[worker 0] hi" in started.stderr


def test_json_tells_the_root_cause(launch: Start, cluster: Cluster) -> None:
    started = launch("--json", *cluster(), *program("fail", "worker-1", "3"))
    result = json.loads(started.stdout)

    assert started.wait() == 1
    assert result["exit_code"] == 1
    assert result["root_cause"]["task"] == "worker-1"
    assert result["root_cause"]["exit_code"] == 3


# ---- readers of all kinds
def test_workers_do_not_wait_for_a_reader_that_has_stopped(launch: Start, tmp_path: Path) -> None:
    count = 400_000
    started = launch("--workers", "2", *program("flood", str(count), "done"))
    for n in (0, 1):
        await_true((tmp_path / f"done-worker-{n}").exists, f"worker {n} has written all, though nobody reads")

    lines = started.raw_stdout.splitlines()
    assert started.wait() == 0
    for n in (0, 1):
        prefix = b"[worker %d] " % n
        own = [line.removeprefix(prefix) for line in lines if line.startswith(prefix)]
        assert own == [b"worker-%d %d" % (n, each) for each in range(count)]


def test_the_run_goes_on_when_its_reader_has_gone(launch: Start, tmp_path: Path) -> None:
    started = launch("--workers", "2", *program("flood", "50000", "done"))
    assert started.process.stdout is not None
    assert started.process.stdout.readline().startswith(b"[worker ")
    started.process.stdout.close()
    started.process.stdout = None

    assert started.wait() == 0
    assert "stdout is closed: the workers' lines are no longer shown" in started.stderr
    for n in (0, 1):
        assert started.log(f"worker-{n}").count(b"\n") == 50_000


def test_the_run_goes_on_when_nobody_reads_its_stderr(launch: Start) -> None:
    started = launch("--workers", "1", "--", "echo", "hi")
    assert started.process.stderr is not None
    started.process.stderr.close()
    started.process.stderr = None

    assert started.wait() == 0


def test_a_full_console_does_not_end_the_run(launch: Start) -> None:
    with Path("/dev/full").open("wb") as full:
        started = launch("--workers", "1", "--", "sh", "-c", "echo hi; touch went-on", stdout=full)

    assert started.wait() == 0
    assert "stdout cannot be written (No space left on device)" in started.stderr


def test_both_streams_in_one_pipe_hold_whole_lines(launch: Start) -> None:
    started = launch("--workers", "2", *program("flood", "20000"), stderr=subprocess.STDOUT)
    lines = started.raw_stdout.splitlines()

    assert started.wait() == 0
    assert all(line.startswith((b"[worker 0] worker-0 ", b"[worker 1] worker-1 ", b"[launch] ")) for line in lines)
    assert lines[-1].startswith(b"[launch] done")


def test_a_non_blocking_stdout_loses_nothing(launch: Start) -> None:
    read, write = os.pipe()
    os.set_blocking(write, False)
    started = launch("--workers", "1", *program("flood", "50000"), stdout=write)
    os.close(write)
    with os.fdopen(read, "rb") as reader:
        lines = reader.read().splitlines()

    assert started.wait() == 0
    assert lines == [b"[worker 0] worker-0 %d" % each for each in range(50_000)]


@pytest.mark.parametrize(
    ("words", "codes"),
    [
        (("--workers", "2", "--dry-run", "--json"), {0}),
        (("--workers", "2", "--dry-run"), {0}),
        (("--workers", "1", "--json", "--", "true"), {0}),
        (("--workers", "1", "--json", "--", "false"), {1}),
        (("doctor", "--workers", "1", "--json"), {0, 3}),
        (("--help",), {0}),
        (("doctor", "--help"), {0}),
        (("collect", "--help"), {0}),
        (("--version",), {0}),
    ],
)
def test_a_reader_that_has_gone_changes_no_exit_code(
    environment: dict[str, str], tmp_path: Path, words: tuple[str, ...], codes: set[int]
) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    argv = [sys.executable, "-m", "launcher", *words]
    done = subprocess.run(argv, env=environment, cwd=tmp_path, stdout=writing, stderr=subprocess.PIPE, text=True)
    os.close(writing)

    assert done.returncode in codes
    assert "Error" not in done.stderr
    assert "roken pipe" not in done.stderr


@pytest.mark.parametrize("words", [("--bogus",), ("-c", "missing.yaml"), ("collect", "missing"), ("--resume", "no")])
def test_nor_does_one_of_what_is_wrong(environment: dict[str, str], tmp_path: Path, words: tuple[str, ...]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run([sys.executable, "-m", "launcher", *words], env=environment, cwd=tmp_path, stderr=writing)
    os.close(writing)

    assert done.returncode == 2


@pytest.mark.parametrize(
    ("words", "codes"),
    [
        (("--workers", "1", "--dry-run"), {0}),
        (("--workers", "1", "--json", "--", "true"), {0}),
        (("doctor", "--workers", "1"), {0, 3}),
    ],
)
def test_a_closed_stdout_changes_no_exit_code(
    environment: dict[str, str], tmp_path: Path, words: tuple[str, ...], codes: set[int]
) -> None:
    argv = ["sh", "-c", 'exec "$@" >&-', "sh", sys.executable, "-m", "launcher", *words]
    done = subprocess.run(argv, env=environment, cwd=tmp_path, stderr=subprocess.PIPE, text=True)

    assert done.returncode in codes
    assert "Error" not in done.stderr


@pytest.mark.parametrize("words", [("--workers", "2", "--dry-run"), ("--help",)])
def test_a_full_disk_behind_stdout_is_told(launch: Start, words: tuple[str, ...]) -> None:
    with Path("/dev/full").open("wb") as full:
        started = launch(*words, stdout=full)

    assert started.wait() == 1
    assert started.stderr == "launch: stdout cannot be written: No space left on device\n"
