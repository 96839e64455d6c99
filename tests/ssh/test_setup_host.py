"""`scripts/setup_host` on real hosts without a network: small packages stand for TensorFlow, all else is real."""

from __future__ import annotations

import hashlib
import io
import json
import signal
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from shlex import quote

import pip
import pytest
from rig import Host, Rig
from support.launching import ROOT, Launch, await_true

Hosts = tuple[Host, ...]
SetUp = Callable[..., subprocess.Popen[str]]
Done = tuple[int, str, str]

PYTHON = str(Path(sys.base_prefix) / "bin" / f"python3.{sys.version_info.minor}")
VENV = "/home/tb/tf-launch/venv"
TENSORFLOW = """
import os
__version__ = "2.21.0"
class Device:
    name = "/physical_device:GPU:0"
class config:
    list_physical_devices = staticmethod(lambda kind: [Device] * os.path.exists("/home/tb/gpu-works"))
"""
NVIDIA_SMI = b"#!/bin/sh\necho 'NVIDIA H100 80GB HBM3, 81559 MiB, 550.54.15'\n"
QUICK_PYTHON = f"""#!/bin/sh
case "$2" in
-c) echo '{json.dumps({"version": sys.version_info[:2], "path": "/home/tb/bin/quick", "venv": True})}' ;;
*) {PYTHON} "$@" --without-pip && ln -s {quote(str(Path(pip.__file__).parent))} "$4"/lib/python*/site-packages ;;
esac
"""
"""This Python, for tests that are not about it: its virtual environments share a pip that is there already."""
ANOTHER_PYTHON = """#!/bin/sh
case "$2" in
-c) echo '{"version": [3, 12], "path": "/home/tb/another/python", "venv": VENV}' ;;
*) [ ! -e /home/tb/began ] || exit 7; echo >/home/tb/began; exec sleep 600 ;;
esac
"""


def wheel(name: str, version: str, text: str) -> tuple[str, bytes]:
    """A package of one module: the name of its file, and the file."""
    about = f"{name}-{version}.dist-info"
    files = {
        f"{name}/__init__.py": text,
        f"{about}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{about}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{about}/RECORD": "",
    }
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for path, file in files.items():
            archive.writestr(path, file)
    return f"{name}-{version}-py3-none-any.whl", content.getvalue()


@pytest.fixture
def pins(tmp_path: Path, hosts: Hosts) -> Path:
    """Pins with hashes; the packages are on the hosts."""
    lines = []
    for name, version, text in (("tensorflow", "2.21.0", TENSORFLOW), ("keras", "3.15.0", "__version__ = '3.15.0'")):
        file, content = wheel(name, version, text)
        lines.append(f"{name}=={version} --hash=sha256:{hashlib.sha256(content).hexdigest()}\n")
        for host in hosts:
            host.write(f"/home/tb/wheels/{file}", content)
    path = tmp_path / "pins.txt"
    path.write_text("".join(lines))
    return path


@contextmanager
def session(host: Host, **variables: str) -> Iterator[None]:
    """What a user's own configuration of pip would say, and a PATH with the user's programs."""
    pip = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": "/home/tb/wheels"}
    with host.session_environment(PATH="/home/tb/bin:/usr/bin:/bin", **{**pip, **variables}):
        yield


@pytest.fixture
def start(rig: Rig, environment: dict[str, str]) -> SetUp:
    """Start `setup_host ARGUMENTS` on the login machine."""

    def start(*arguments: str | Path) -> subprocess.Popen[str]:
        words = [*rig.login.words, sys.executable, str(ROOT / "scripts/set_up_hosts.py"), *map(str, arguments)]
        return subprocess.Popen(
            words,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    return start


@pytest.fixture
def set_up(start: SetUp) -> Callable[..., Done]:
    """Run `setup_host ARGUMENTS` to its end: exit code, stdout, stderr."""

    def run(*arguments: str | Path) -> Done:
        with start(*arguments) as process:
            output, errors = process.communicate()
        return process.returncode, output, errors

    return run


def program(host: Host, name: str, text: bytes) -> None:
    host.write(f"/home/tb/bin/{name}", text)
    host.run(["chmod", "+x", f"/home/tb/bin/{name}"])


@pytest.fixture
def quick_python(hosts: Hosts) -> str:
    """The same on each host: a Python whose virtual environments do not take seconds."""
    for host in hosts:
        program(host, "quick", QUICK_PYTHON.encode())
    return "~/bin/quick"


def test_a_host_gets_an_environment_that_a_launch_can_use_and_the_next_time_it_is_only_checked(
    set_up: Callable[..., Done],
    pins: Path,
    hosts: Hosts,
    launch: Callable[..., Launch],
    cluster: Callable[..., tuple[str, str]],
) -> None:
    with session(hosts[0]):
        code, output, errors = set_up("host1", "--pins", pins, "--python", PYTHON)
        before = hosts[0].read(f"{VENV}/set-up.log")
        again = set_up("host1", "--pins", pins, "--python", PYTHON)

    assert (code, errors) == (0, "")
    assert "[host1] ready: TensorFlow 2.21.0, Keras 3.15.0, no GPU\n" in output
    line = "python: ~/tf-launch/venv/bin/python\n"
    assert output.endswith(f"\nIn the cluster file, for host1 (or in `defaults`):\n    {line}")
    assert again[1].startswith("[host1] ~/tf-launch/venv is up to date\n[host1] ready: ")
    assert hosts[0].read(f"{VENV}/set-up.log") == before
    host = {"host": "host1", "python": "~/tf-launch/venv/bin/python"}
    started = launch(*cluster(host), "--", "python", "-c", "import tensorflow; print(tensorflow.__file__)")
    assert started.succeeded()
    assert started.log("worker-0").startswith(f"{VENV}/lib/".encode())


def test_hosts_of_a_cluster_file_get_what_it_says(
    set_up: Callable[..., Done], pins: Path, quick_python: str, hosts: Hosts, tmp_path: Path
) -> None:
    file = tmp_path / "c.yaml"
    file.write_text(
        "hosts: [{host: host1}, {host: host2, python: /home/tb/own/bin/python}]\nssh: {options: [-l, tb]}\n"
        "defaults: {python: ~/shared/bin/python}\n"
    )
    with session(hosts[0]), session(hosts[1]):
        code, output, errors = set_up("--cluster", file, "--pins", pins, "--python", quick_python)

    assert (code, errors) == (0, "")
    assert "for host1 (or in `defaults`):\n    python: ~/shared/bin/python\n" in output
    assert "for host2 (or in `defaults`):\n    python: ~/own/bin/python\n" in output


# ---- GPUs
def test_a_gpu_brings_cuda_and_has_to_be_used_by_tensorflow(
    set_up: Callable[..., Done], pins: Path, quick_python: str, hosts: Hosts
) -> None:
    program(hosts[0], "nvidia-smi", NVIDIA_SMI)
    with session(hosts[0]):
        unused = set_up("host1", "--pins", pins, "--python", quick_python)
        hosts[0].write("/home/tb/gpu-works", b"")
        used = set_up("host1", "--pins", pins, "--python", quick_python)

    assert (unused[0], used[0]) == (3, 0)
    assert "[host1] installing TensorFlow with CUDA, " in unused[1]
    assert unused[2].startswith("[host1] error: TensorFlow uses none of the 1 GPUs (NVIDIA H100 80GB HBM3")
    assert "Keras 3.15.0, 1 GPU (NVIDIA H100 80GB HBM3, 81559 MiB, 550.54.15)\n" in used[1]


def test_a_driver_that_does_not_answer_is_told(set_up: Callable[..., Done], pins: Path, hosts: Hosts) -> None:
    program(hosts[0], "nvidia-smi", b"#!/bin/sh\necho 'NVIDIA-SMI has failed'; exit 9\n")
    with session(hosts[0]):
        code, _, errors = set_up("host1", "--pins", pins, "--python", PYTHON)

    assert (code, errors) == (
        3,
        "[host1] error: nvidia-smi fails: NVIDIA-SMI has failed\n  mend the driver, or leave the GPUs out with --cpu\n",
    )


# ---- what a host lacks
def test_a_disk_that_is_too_small_is_told_first(set_up: Callable[..., Done], hosts: Hosts) -> None:
    with session(hosts[0]):
        code, output, errors = set_up("host1", "--python", PYTHON)

    assert (code, output) == (3, "")
    assert "[host1] error: ~/tf-launch/venv: not enough room: 3.2 GB are needed, 0." in errors


def test_without_a_fitting_python_the_versions_are_told(set_up: Callable[..., Done], pins: Path, hosts: Hosts) -> None:
    program(hosts[0], "old", b"""#!/bin/sh\necho '{"version": [3, 10], "path": "/x", "venv": true}'\n""")
    with session(hosts[0]):
        errors = set_up("host1", "--pins", pins, "--python", "~/bin/old")[2]

    assert errors.startswith("[host1] error: TensorFlow needs Python 3.11 to 3.13; found: ~/bin/old is 3.10\n  install")


def test_a_python_without_venv_is_told_with_the_package(set_up: Callable[..., Done], pins: Path, hosts: Hosts) -> None:
    program(hosts[0], "another", ANOTHER_PYTHON.replace("VENV", "false").encode())
    with session(hosts[0]):
        errors = set_up("host1", "--pins", pins, "--python", "~/bin/another")[2]

    assert "lacks the module venv or ensurepip\n  on Debian and Ubuntu: sudo apt install python3.12-venv\n" in errors


def test_an_index_out_of_reach_is_told(
    set_up: Callable[..., Done], pins: Path, quick_python: str, hosts: Hosts
) -> None:
    unreachable = {"PIP_NO_INDEX": "", "PIP_FIND_LINKS": "", "PIP_INDEX_URL": "http://127.0.0.1:9", "PIP_RETRIES": "0"}
    with session(hosts[0], **unreachable):
        code, _, errors = set_up("host1", "--pins", pins, "--python", quick_python)

    assert code == 3
    assert "[host1] error: `pip install` ended with exit code 1:\n" in errors
    assert "\n  the host must reach a package index: set its proxy (https_proxy) or a mirror" in errors


def test_what_something_else_has_made_is_left_alone(set_up: Callable[..., Done], pins: Path, hosts: Hosts) -> None:
    hosts[0].write(f"{VENV}/bin/python", b"precious")
    with session(hosts[0]):
        code, _, errors = set_up("host1", "--pins", pins, "--python", PYTHON)

    assert code == 3
    assert "something else has made ~/tf-launch/venv\n  name another --venv, or remove it\n" in errors
    assert hosts[0].read(f"{VENV}/bin/python") == b"precious"


def test_an_unknown_host_key_is_told_with_the_remedy(set_up: Callable[..., Done], pins: Path, hosts: Hosts) -> None:
    with hosts[0].unknown():
        code, _, errors = set_up("host1", "--pins", pins, "--python", PYTHON)

    assert code == 3
    assert errors.startswith(
        "[host1] error: this machine does not know its host key\n  if you trust it, accept it with: "
    )


# ---- safe to interrupt
def test_an_interrupted_one_leaves_nothing_running_and_is_done_anew(
    start: SetUp, set_up: Callable[..., Done], pins: Path, hosts: Hosts
) -> None:
    for name in ("bin/another", "another/python"):
        hosts[0].write(f"/home/tb/{name}", ANOTHER_PYTHON.replace("VENV", "true").encode())
        hosts[0].run(["chmod", "+x", name])
    with session(hosts[0]):
        with start("host1", "--pins", pins, "--python", "~/bin/another") as process:
            await_true(lambda: "/home/tb/began" in hosts[0].files(), "the first step is under way")
            process.send_signal(signal.SIGINT)
            _, errors = process.communicate()
        await_true(lambda: not hosts[0].processes(), "the end of what it ran there")
        code, output, failed = set_up("host1", "--pins", pins, "--python", "~/bin/another")

    assert (process.returncode, errors) == (130, "setup_host: interrupted: the next one starts where it has to\n")
    assert "removing the half-made or outdated ~/tf-launch/venv\n" in output
    assert (code, failed.splitlines()[0]) == (3, "[host1] error: `python -m venv` ended with exit code 7:")
