"""`launch --keras 2` in real Python processes, with stand-ins for TensorFlow, Keras and tf_keras."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

BOOTSTRAP = Path(__file__).resolve().parents[2] / "launcher" / "on_host" / "bootstrap"
FILES = {
    "tensorflow/__init__.py": "__version__ = '2.18.1'\n",
    "keras/__init__.py": "__version__ = '3.8.0'\n",
    "tf_keras/__init__.py": "import tensorflow\nfrom tf_keras import layers\n__version__ = '2.18.0'\n",
    "tf_keras/layers/__init__.py": "from tf_keras.src.dense import Dense\n",
    "tf_keras/src/__init__.py": "",
    "tf_keras/src/dense.py": "class Dense: pass\n",
}


@pytest.fixture
def packages(tmp_path: Path) -> Path:
    """A directory on the path of the worker with all three packages."""
    for name, text in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


def installed(packages: Path, version: str) -> None:
    """Have the package of tf_keras say its version."""
    metadata = packages / f"tf_keras-{version}.dist-info" / "METADATA"
    metadata.parent.mkdir()
    metadata.write_text(f"Metadata-Version: 2.1\nName: tf_keras\nVersion: {version}\n")


def worker(packages: Path, code: str, **env: str) -> subprocess.CompletedProcess[str]:
    """Run a worker's code as `launch --keras 2` has it run, without the packages that are really installed."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "TF_", "LAUNCH_"))}
    path = {"PYTHONPATH": f"{BOOTSTRAP}:{packages}", "PYTHONDONTWRITEBYTECODE": "1"}
    only_these = "import sys; sys.path = [entry for entry in sys.path if 'site-packages' not in entry]\n"
    return subprocess.run(
        [sys.executable, "-c", only_these + code],
        env={**kept, **path, "TF_USE_LEGACY_KERAS": "1", "LAUNCH_KERAS": "2", **env},
        cwd=packages,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("version", ["2.18.0", "2.18.2"])
def test_a_tf_keras_that_belongs_to_the_tensorflow_is_taken_in_silence(packages: Path, version: str) -> None:
    installed(packages, version)
    process = worker(packages, "import tensorflow; print('done')")
    assert (process.returncode, process.stdout, process.stderr) == (0, "done\n", "")


def test_a_tf_keras_that_is_no_installed_package_is_not_judged(packages: Path) -> None:
    assert worker(packages, "import tensorflow; print('done')").stdout == "done\n"


@pytest.mark.parametrize("version", ["2.1.0", "2.17.0", "2.180.0", None])
@pytest.mark.parametrize("statement", ["import tensorflow", "import keras", "from keras.layers import Dense"])
def test_without_the_right_tf_keras_the_worker_ends_with_a_line_that_says_what_to_install(
    packages: Path, version: str | None, statement: str
) -> None:
    if version:
        installed(packages, version)
    else:
        (packages / "tf_keras").rename(packages / "gone")
    process = worker(packages, f"try:\n {statement}\nexcept Exception: pass\nprint('went on')")

    assert (process.returncode, process.stdout) == (2, "")
    has = f"tf_keras {version}" if version else "none"
    assert process.stderr == (
        f"tf-launch: --keras 2 needs tf_keras 2.18 for TensorFlow 2.18.1, and {sys.executable} on {os.uname().nodename}"
        f" has {has}: {sys.executable} -m pip install 'tf_keras==2.18.*'\n"
    )


def test_a_program_without_tensorflow_needs_no_keras(packages: Path) -> None:
    (packages / "tf_keras").rename(packages / "gone")
    assert worker(packages, "print('done')").stdout == "done\n"


@pytest.mark.parametrize(
    "code",
    [
        "import keras; print(keras.__version__)",
        "from keras.layers import Dense; import tf_keras; print(Dense is tf_keras.layers.Dense)",
        "import keras.src.dense as d, tf_keras.src.dense as e; print(d is e)",
        "import tf_keras, keras.layers; print(keras.layers is tf_keras.layers, keras.layers.__spec__.name)",
    ],
)
def test_keras_is_keras_2_too_and_the_same_modules(packages: Path, code: str) -> None:
    process = worker(packages, code)
    assert process.stdout in ("2.18.0\n", "True\n", "True tf_keras.layers\n"), process.stderr


def test_what_keras_2_has_not_is_missing_by_the_name_that_the_program_gave_it(packages: Path) -> None:
    process = worker(packages, "import keras.ops")
    assert process.stderr.splitlines()[-1] == "ModuleNotFoundError: No module named 'keras.ops'"


def test_without_the_option_keras_is_what_it_is(packages: Path) -> None:
    process = worker(packages, "import keras; print(keras.__version__)", LAUNCH_KERAS="")
    assert (process.stdout, process.stderr) == ("3.8.0\n", "")
