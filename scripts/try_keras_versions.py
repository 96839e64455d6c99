"""`scripts/keras_versions`: trains with each Keras that the fix serves, and prints what came out as a table."""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import shlex
import shutil
import subprocess
import sys
import venv
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
TESTS = ROOT / "tests"
MINORS = TESTS / "training" / "keras-minors.txt"
sys.path.insert(0, str(TESTS))

from support.keras_runs import PACKAGE, numbers, read  # noqa: E402 - found on the path of above

Command = list[str | Path]

PYTHON = "3.11"
"""All TensorFlow versions of the list are built for it."""
UV = "uv>=0.9,<1"
TOLERANCE = 1e-4
"""As in the tests."""
EXIT_DONE, EXIT_DIFFERENT, EXIT_USAGE = 0, 1, 2
COLUMNS: Mapping[str, Sequence[str]] = {
    "fit": ("datasets_validate_evaluate_predict/history", "datasets_validate_evaluate_predict/weights"),
    "evaluate": ("datasets_validate_evaluate_predict/evaluate", "datasets_validate_evaluate_predict/evaluate_dict"),
    "predict": ("datasets_validate_evaluate_predict/predict", "predict_one_and_25_samples"),
    "callbacks": (
        "logs_of_batches",
        "stopped_at_a_batch_by_the_last_worker",
        "model_checkpoint_of_the_best",
        "backup_of_every_third_batch",
    ),
    "metrics": ("auc_precision_f1_and_an_own_metric/history", "auc_precision_f1_and_an_own_metric/evaluate"),
    "losses": ("regularizers_and_add_loss",),
    "optimizers": ("gradient_accumulation_that_does_not_divide", "moving_average_that_overwrites"),
    "own steps": ("own_train_and_test_step",),
    "saved": ("save_as_keras_file",),
}
"""Of which ways of `tests/training/scripts/keras_ways`, or of which parts of their outcomes, a column tells."""
EPILOG = f"""\
Without arguments every pair of {MINORS.relative_to(ROOT)} is tried: each minor version of Keras from 3.3 on, with a
TensorFlow of its time. Each cell of the table is the largest difference between any number of two workers, under
`launch`, and of one process; both workers must agree to the last bit.

It needs Python {PYTHON} on PATH. Environments are made by uv, which is installed for this; its own settings
(UV_DEFAULT_INDEX and others) say where packages come from. They are removed at the end, but not what was downloaded:
13 GB for the whole list.

examples:
  scripts/keras_versions                    all, 3 to 10 minutes each
  scripts/keras_versions 3.3 3.10           two of the list
  scripts/keras_versions 3.15.1@2.16.2      any other pair of Keras and TensorFlow

exit codes: 0 all agree, 1 some do not, or have no environment, 2 usage
"""


class Pair(NamedTuple):
    """A Keras and a TensorFlow."""

    keras: str
    tensorflow: str

    def __str__(self) -> str:
        return f"{self.keras}@{self.tensorflow}"


class Tried(NamedTuple):
    """What came out: the exact versions, and for each column the largest difference (infinite: a worker failed)."""

    versions: Mapping[str, str]
    differences: Mapping[str, float]
    notes: Sequence[str]


def main() -> int:
    """Try each pair; the exit code."""
    options = parsed(sys.argv[1:])
    directory: Path = options.directory
    directory.mkdir(parents=True, exist_ok=True)
    uv = installed_uv(directory)
    print(header(), flush=True)
    agree = True
    for pair in options.pairs:
        try:
            tried = attempt(uv, directory, pair, keep=options.keep)
        except subprocess.CalledProcessError as error:  # what it has said stands above
            print(f"keras_versions: {pair}: {shlex.join(map(str, error.cmd))} failed", file=sys.stderr)
            agree = False
            continue
        print(row(tried), flush=True)
        for note in tried.notes:
            print(f"keras_versions: {pair}: {note}", file=sys.stderr)
        agree = agree and all(difference <= TOLERANCE for difference in tried.differences.values())
    return EXIT_DONE if agree else EXIT_DIFFERENT


def parsed(arguments: Sequence[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="keras_versions",
        description="Train with each version of Keras that the fix serves: two workers beside one process.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    parser.add_argument("pairs", nargs="*", metavar="KERAS[@TENSORFLOW]", help="what to try; default: the whole list")
    parser.add_argument(
        "--directory",
        type=Path,
        default=cache / "tf-launch" / "keras-versions",
        help="where environments, downloads and logs go (default: %(default)s)",
    )
    parser.add_argument("--keep", action="store_true", help="keep the environments, for the next time")
    options = parser.parse_args(arguments)
    options.directory = options.directory.absolute()
    listed = list(listed_pairs())
    try:
        options.pairs = [chosen(word, listed) for word in options.pairs] or listed
    except ValueError as error:
        parser.error(str(error))
    return options


def listed_pairs() -> Iterator[Pair]:
    """Of the list."""
    for keras, tensorflow in re.findall(r"^keras==(\S+) .*# tensorflow==(\S+)$", MINORS.read_text(), re.MULTILINE):
        yield Pair(keras, tensorflow)


def chosen(word: str, listed: Sequence[Pair]) -> Pair:
    """The pair that is meant by a word of the command line.

    Raises:
        ValueError: none is.
    """
    keras, _, tensorflow = word.partition("@")
    if tensorflow:
        return Pair(keras, tensorflow)
    found = [pair for pair in listed if f"{pair.keras}.".startswith(f"{keras}.")]
    if len(found) != 1:
        raise ValueError(
            f"{word}: neither a version of the list ({', '.join(pair.keras for pair in listed)}) nor a pair"
        )
    return found[0]


def installed_uv(directory: Path) -> Path:
    """The path of uv: pip takes several times as long, and copies every file."""
    tools = directory / "tools"
    uv = tools / "bin" / "uv"
    if not uv.exists():
        venv.create(tools, with_pip=True, clear=True)
        pip: Command = [
            tools / "bin" / "python",
            "-I",
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
        ]
        subprocess.run([*pip, UV], check=True)
    return uv


def attempt(uv: Path, directory: Path, pair: Pair, *, keep: bool) -> Tried:
    """Make the environment, train in it, compare."""
    environment, logs = directory / "environments" / str(pair), directory / "logs" / str(pair)
    shutil.rmtree(logs, ignore_errors=True)
    logs.mkdir(parents=True)
    try:
        make_environment(uv, directory, environment, pair)
        python = environment / "bin" / "python"
        trained(python, logs)
        return Tried(versions_of(python), differences(logs), notes(logs))
    finally:
        if not keep:
            shutil.rmtree(environment, ignore_errors=True)


def make_environment(uv: Path, directory: Path, environment: Path, pair: Pair) -> None:
    """Whose files are links to uv's downloads."""
    env = {
        "UV_SYSTEM_CERTS": "1",
        **os.environ,
        "UV_CACHE_DIR": str(directory / "downloads"),
        "UV_PYTHON_DOWNLOADS": "never",
    }
    if not environment.exists():
        subprocess.run([uv, "venv", "--quiet", "--python", PYTHON, environment], check=True, env=env)
    install: Command = [uv, "pip", "install", "--quiet", "--python", environment / "bin" / "python"]
    subprocess.run([*install, f"keras=={pair.keras}", f"tensorflow=={pair.tensorflow}"], check=True, env=env)


def trained(python: Path, logs: Path) -> None:
    """All ways, by two workers under `launch` and by one process; what they print goes to files in `logs`."""
    ways = list(dict.fromkeys(place.partition("/")[0] for places in COLUMNS.values() for place in places))
    own = {"PYTHONPATH": str(PACKAGE.parent), "PYTHONDONTWRITEBYTECODE": "1", "CUDA_VISIBLE_DEVICES": "-1"}
    launch: Command = [
        ROOT / "scripts" / "launch",
        "--workers",
        "2",
        "--python",
        python,
        "--run-dir",
        logs / "runs",
        "--no-color",
    ]
    for name, value in own.items():
        launch += ["--env", f"{name}={value}"]
    by_workers: Command = [*launch, "--", "python", "-m", "keras_ways", logs / "workers", "workers", "1", *ways]
    alone: Command = [python, "-m", "keras_ways", logs / "alone", "alone", "1", *ways]
    for name, argv in (("workers", by_workers), ("alone", alone)):
        with (logs / f"{name}.log").open("wb") as log:
            subprocess.run(argv, stdout=log, stderr=subprocess.STDOUT, env={**os.environ, **own}, check=False)


def versions_of(python: Path) -> dict[str, str]:
    """The exact versions that ran."""
    code = (
        "import platform; from importlib.metadata import version as v; "
        "print(platform.python_version(), *map(v, ('keras', 'tensorflow', 'numpy')))"
    )
    answer = subprocess.run([python, "-c", code], check=True, capture_output=True, text=True).stdout.split()
    return dict(zip(("Python", "Keras", "TensorFlow", "NumPy"), answer, strict=True))


def differences(logs: Path) -> dict[str, float]:
    """The largest one of each column."""
    return {column: max(difference(logs, place) for place in places) for column, places in COLUMNS.items()}


def difference(logs: Path, place: str) -> float:
    """The largest one in a part of an outcome, of the workers from one process."""
    way, _, part = place.partition("/")
    alone, chief, other = (outcome(logs / who / f"{way}.json", part) for who in ("alone/0", "workers/0", "workers/1"))
    if alone is None or chief is None or other is None:
        return math.inf
    own = {place for place in chief if place.startswith("on_chief")}
    same = {key: value for key, value in chief.items() if key not in own} == {
        key: value for key, value in other.items() if not key.startswith("on_chief")
    }
    if not same or alone.keys() != chief.keys():
        return math.inf
    return max((apart(chief[place], alone[place]) for place in chief), default=math.inf)


def outcome(path: Path, part: str) -> dict[str, Any] | None:
    """The numbers of a way, or of a part of them; None: it failed."""
    found = read(path).outcome
    return None if found is None else numbers(found[part] if part else found)


def apart(found: Any, expected: Any) -> float:
    """How far two leaves of an outcome are."""
    if isinstance(found, float) and isinstance(expected, float):
        return 0.0 if math.isnan(found) and math.isnan(expected) else abs(found - expected)
    return 0.0 if found == expected else math.inf


def notes(logs: Path) -> list[str]:
    """What failed, and what the table cannot say."""
    said = (logs / "workers.log").read_text(errors="replace")
    failed = [
        f"{path.parent.parent.name} {path.parent.name}, {path.stem}: {error}"
        for path in sorted(logs.glob("*/[0-9]/*.json"))
        if (error := json.loads(path.read_text()).get("error"))
    ]
    hints = re.findall(r"tf-launch: (.*(?:not recognised|cannot be mended).*)", said)
    progress = [path for path in logs.glob("runs/*/attempt-0/worker-0.progress.jsonl") if path.stat().st_size]
    return [*failed, *hints, *([] if progress else ["no reports of progress"])]


def header() -> str:
    """Of the table."""
    columns = ["Keras", "TensorFlow", "NumPy", *COLUMNS]
    return f"| {' | '.join(columns)} |\n| {' | '.join('---' for _ in columns)} |"


def row(tried: Tried) -> str:
    """Of the table."""
    versions = [tried.versions[name] for name in ("Keras", "TensorFlow", "NumPy")]
    return f"| {' | '.join([*versions, *map(cell, tried.differences.values())])} |"


def cell(difference: float) -> str:
    """A difference in one significant digit."""
    return "differs" if math.isinf(difference) else f"{difference:.0e}" if difference else "0"


if __name__ == "__main__":
    sys.exit(main())
