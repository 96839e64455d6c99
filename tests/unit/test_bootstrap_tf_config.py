"""A program's own TF_CONFIG and the launcher's, in real Python processes with a stand-in for TensorFlow's reader."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

BOOTSTRAP = Path(__file__).resolve().parents[2] / "launcher" / "on_host" / "bootstrap"
RESOLVER = "tensorflow.python.distribute.cluster_resolver.tfconfig_cluster_resolver"
READER = """import json, os
def _load_tf_config():
    return json.loads(os.environ.get('TF_CONFIG', '{}'))
"""
FIRST, SECOND, OTHER = "127.0.0.1:41001", "127.0.0.1:41002", "localhost:12345"
SAID = "tf-launch: the program sets TF_CONFIG itself ({}): launch's is used instead; --keep-tf-config leaves "
SAID += "the program's"


def config(*workers: str, index: int = 0) -> str:
    """A `TF_CONFIG` of these workers."""
    return json.dumps({"cluster": {"worker": workers}, "task": {"type": "worker", "index": index}})


LAUNCHERS = config(FIRST, SECOND, index=1)


@pytest.fixture
def packages(tmp_path: Path) -> Path:
    """A directory on the path of the worker, with TensorFlow's reader of `TF_CONFIG` in it, and nothing else of it."""
    path = tmp_path.joinpath(*RESOLVER.split(".")).with_suffix(".py")
    path.parent.mkdir(parents=True)
    for package in [*path.parents][: RESOLVER.count(".")]:
        (package / "__init__.py").touch()  # else the installed TensorFlow would come first
    path.write_text(READER)
    return tmp_path


def worker(packages: Path, code: str, before: str = "", **env: str) -> subprocess.CompletedProcess[str]:
    """Run code as the process that the launcher has started; `before` is what a shell does that starts it with exec."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "TF_", "LAUNCH_"))}
    ours = {"TF_CONFIG": LAUNCHERS, "LAUNCH_TF_CONFIG": LAUNCHERS, "PYTHONPATH": f"{BOOTSTRAP}:{packages}"}
    shell = f'{before}\nLAUNCH_PID=$$ exec "$0" -c "$1"'
    prelude = (
        f"import importlib, json, os\ndef read():\n return importlib.import_module({RESOLVER!r})._load_tf_config()\n"
    )
    return subprocess.run(
        ["sh", "-c", shell, sys.executable, prelude + code],
        env={**kept, "PYTHONDONTWRITEBYTECODE": "1", **ours, **env},
        cwd=packages,
        capture_output=True,
        text=True,
        check=False,
    )


def read(process: subprocess.CompletedProcess[str]) -> str:
    """What TensorFlow read in a worker that ended well: the same that the program then finds in its environment."""
    assert process.returncode == 0, process.stderr
    from_tensorflow, from_environment = map(json.loads, process.stdout.splitlines())
    assert from_tensorflow == from_environment
    return json.dumps(from_tensorflow)


SHOW = "\nprint(json.dumps(read())); print(os.environ.get('TF_CONFIG', '{}'))"
OWN = config(OTHER, "localhost:23456")
WAYS = {
    "assignment": f"os.environ['TF_CONFIG'] = {OWN!r}",
    "update": f"os.environ.update(TF_CONFIG={OWN!r})",
    "union": f"os.environ |= {{'TF_CONFIG': {OWN!r}}}",
    "removed, then set": f"os.environ.pop('TF_CONFIG'); os.environ.setdefault('TF_CONFIG', {OWN!r})",
    "another mapping": f"os.environ = {{'TF_CONFIG': {OWN!r}}}",
    "after a first look": f"read(); os.environ['TF_CONFIG'] = {OWN!r}",
    "everything cleared": f"os.environ.clear(); os.environ['TF_CONFIG'] = {OWN!r}",
}


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS.keys())
def test_a_cluster_of_the_programs_own_gives_way_to_the_launchers_and_that_is_said_once(
    packages: Path, way: str
) -> None:
    process = worker(packages, f"{way}{SHOW}; read()")
    assert read(process) == LAUNCHERS
    assert process.stderr.splitlines() == [SAID.format(f"worker 0 of {OTHER}, ...")]


@pytest.mark.parametrize(
    ("own", "said"),
    [
        (config(OTHER), f"worker 0 of {OTHER}"),
        (json.dumps({"cluster": {"ps": {"3": OTHER}}, "task": {"type": "ps", "index": 3}}), f"ps 3 of {OTHER}"),
        (json.dumps({"cluster": {"chief": ["a:1"], "worker": ["b:1"]}}), "a:1, ..."),
    ],
)
def test_the_line_names_the_programs_own_task_and_address(packages: Path, own: str, said: str) -> None:
    process = worker(packages, f"os.environ['TF_CONFIG'] = {own!r}{SHOW}")
    assert read(process) == LAUNCHERS
    assert process.stderr.splitlines() == [SAID.format(said)]


def test_a_shell_that_sets_another_cluster_and_becomes_the_program_is_told_of_too(packages: Path) -> None:
    assert read(worker(packages, SHOW.strip(), before=f"export TF_CONFIG='{OWN}'")) == LAUNCHERS


@pytest.mark.parametrize(
    "own",
    [
        config(SECOND),
        config(FIRST, SECOND, index=0),
        json.dumps({"cluster": {"chief": [FIRST], "worker": [SECOND, OTHER]}}),
        "{}",
        json.dumps({"cluster": {}}),
        json.dumps({"task": {"type": "worker", "index": 0}}),
        json.dumps({"cluster": {"worker": OTHER}}),
        json.dumps({"cluster": [OTHER]}),
        json.dumps([OTHER]),
    ],
)
def test_what_is_made_from_the_launchers_or_names_no_address_stays(packages: Path, own: str) -> None:
    process = worker(packages, f"os.environ['TF_CONFIG'] = {own!r}{SHOW}")
    assert read(process) == json.dumps(json.loads(own))
    assert process.stderr == ""


def test_a_removal_stays(packages: Path) -> None:
    process = worker(packages, f"del os.environ['TF_CONFIG']{SHOW}")
    assert (read(process), process.stderr) == ("{}", "")


def test_what_is_no_json_is_for_tensorflow_to_refuse(packages: Path) -> None:
    process = worker(packages, f"os.environ['TF_CONFIG'] = '{{{OTHER}'{SHOW}")
    assert process.stderr.splitlines()[-1].startswith("json.decoder.JSONDecodeError")


def test_the_program_finds_what_it_has_set_until_tensorflow_reads_it(packages: Path) -> None:
    code = f"os.environ['TF_CONFIG'] = {OWN!r}; print(os.environ['TF_CONFIG'] == {OWN!r}, end='')"
    assert worker(packages, code).stdout == "True"


CHILD = f"import importlib; print(importlib.import_module({RESOLVER!r})._load_tf_config()['cluster']['worker'][0])"
CHILDREN = {
    "inherited": "os.environ['TF_CONFIG'] = {own!r}; subprocess.run(argv)",
    "given": "subprocess.run(argv, env={{**os.environ, 'TF_CONFIG': {own!r}}})",
    "a session of its own": "os.environ['TF_CONFIG'] = {own!r}; subprocess.run(argv, start_new_session=True)",
    "forked": "read()\nif os.fork(): os.wait()\nelse: os.environ['TF_CONFIG'] = {own!r}; exec(argv[2])",
}


@pytest.mark.parametrize("way", CHILDREN.values(), ids=CHILDREN.keys())
def test_children_keep_what_their_parent_gives_them(packages: Path, way: str) -> None:
    code = f"import subprocess, sys; argv = [sys.executable, '-c', {CHILD!r}]\n{way.format(own=OWN)}"
    process = worker(packages, code)
    assert (process.stdout, process.stderr) == (f"{OTHER}\n", "")


@pytest.mark.parametrize("env", [{"LAUNCH_TF_CONFIG": "0"}, {"LAUNCH_TF_CONFIG": "Off"}, {"LAUNCH_TF_CONFIG": ""}])
def test_where_the_user_says_so_the_programs_own_stays(packages: Path, env: dict[str, str]) -> None:
    process = worker(packages, f"os.environ['TF_CONFIG'] = {OWN!r}{SHOW}", **env)
    assert (read(process), process.stderr) == (OWN, "")


def test_a_tensorflow_that_reads_otherwise_is_left_alone(packages: Path) -> None:
    packages.joinpath(*RESOLVER.split(".")).with_suffix(".py").write_text("def load(): return 'as ever'\n")
    process = worker(packages, f"os.environ['TF_CONFIG'] = {OWN!r}; import {RESOLVER} as r; print(r.load())")
    assert (process.stdout, process.stderr) == ("as ever\n", "")
