"""Imports point down only, and the borders of docs/design.md hold."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

# From top to bottom: a module may import from the lines below its own, never from its own line or above.
LAUNCHER = """
    __main__
    cli
    collect doctor
    run
    session
    resumption host_files
    run_record sync.sending
    run_result
    restoring
    gathering restoring.delivery
    restoring.parcels
    gathering.host_gatherer gathering.newest_step restoring.needs
    gathering.chief_output gathering.other_output gathering.worker_logs
    gathering.report
    gathering.image
    gathering.gathered
    gathering.selection gathering.conversation gathering.under_way
    gathering.checkpoints gathering.record gathering.arrival
    gathering.remote_files
    gathering.state_file
    doctor.examine doctor.diagnosis doctor.report
    doctor.visit doctor.checks.connections doctor.checks.disks doctor.checks.gpus doctor.checks.network
    doctor.checks.ports doctor.checks.program doctor.checks.silences doctor.checks.surroundings doctor.checks.versions
    doctor.probing doctor.exchange doctor.reach doctor.checks.odd_ones
    doctor.examination doctor.patient doctor.findings
    doctor.answers
    options
    host_contexts missing_program
    supervisor
    gang
    lone_workers endings
    last_steps hosts dry_run failure.interrupted failure.report failure.restart_policy failure.root_cause python_choice
    ssh_consent run_directory.finding
    run_directory.brought run_directory.chief_files run_directory.event_log run_directory.remote_logs heartbeat
    run_directory.hold
    failure run_directory step_watch console host free_ports reachability sync.exchange sync.rsync
    connection
    plan request access host_facts failure.remedies sync.project
    head_start failure.missing_file failure.refused_keras
    agent_process agent_messages ssh_complaint ssh_destination
    child misplaced_servers outbox own_processes
    cluster_file cluster_file.places
    cluster_file.keys
    cluster_file.checks console.attempt_text
    cluster_file.value_structures console.bars
    cluster_file.value_kinds console.worker_text
    cluster_file.yaml_nodes console.interruption
    cluster_file.file_text events placeholders failure.collateral failure.traceback_text sync.complaints
    run_directory.whole_files run_directory.state standard_output left_workers
    task_names
    console.folding
    called_as cluster errors failure.excerpt failure.keras2 own_files redaction.yaml_copy run_directory.launcher_process
    shortage transport
    here console.lines console.terminal console.startup_noise console.writer failure.frames sync.ignoring sync.window
    redaction redaction.commands wording
    redaction.texts
    redaction.names
    examiner.pair
    agent.pair examiner.loop
    agent.loop examiner.questions examiner.throughput
    agent.watching agent.evaluator agent.deliveries agent.gate
    agent.support agent.workers agent.ports agent.reach agent.receiving
    agent.below agent.comparing agent.gate_program agent.limits agent.log agent.placing agent.reports agent.resolving
    agent.rest agent.sockets
    agent.framing agent.processes agent.facts agent.files agent.received
    doctor.probe.telling
    agent.own_directory
    doctor.probe.importing doctor.probe.machine doctor.probe.output doctor.probe.program
    agent sync examiner doctor.checks doctor.probe bootstrap.sitecustomize
    bootstrap.tf_launch_after_import bootstrap.tf_launch_keras2 bootstrap.tf_launch_keras_hook
    bootstrap.tf_launch_tf_config_hook
    __init__
"""
TRAINING = """
    __main__
    cli
    fit
    callbacks checkpoint export data.pipeline
    strategy data.order
    models devices config tf_config interrupt output data.digits
    errors keras_multiworker keras_progress keras_stall data
    __init__
"""
LAYERS = {"launcher": LAUNCHER, "training": TRAINING}
STANDING_ALONE = [
    "launcher/bootstrap/sitecustomize.py",
    "launcher/bootstrap/tf_launch_after_import.py",
    "launcher/bootstrap/tf_launch_keras2.py",
    "launcher/bootstrap/tf_launch_keras_hook.py",
    "launcher/bootstrap/tf_launch_tf_config_hook.py",
    "training/keras_multiworker.py",
    "training/keras_progress.py",
    "training/keras_stall.py",
]
STANDARD_LIBRARY_ONLY = [path for path in STANDING_ALONE if path.startswith("launcher/")]
SAYING_NOTHING = {"manager", "managers", "util", "utils", "helper", "helpers", "common"}
SLOW_TO_IMPORT = {"asyncio", "keras", "msgspec", "numpy", "portpicker", "psutil", "rich", "tensorflow", "yaml"}


def sources(package: str) -> list[Path]:
    """All modules of a package."""
    return sorted((ROOT / package).rglob("*.py"))


def name_below(package: str, path: Path) -> str:
    """`data.pipeline` for training/data/pipeline.py, `data` for training/data/__init__.py."""
    parts = path.relative_to(ROOT / package).with_suffix("").parts
    return ".".join(parts if len(parts) == 1 else [part for part in parts if part != "__init__"])


def imported(path: Path) -> Iterator[str]:
    """Full names of all that a module imports, wherever in the module: `from a import b` gives `a.b`."""
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: write the whole name of the module"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def imported_modules(package: str, path: Path) -> set[str]:
    """What a module imports of its own package, as names of modules."""
    modules = {name_below(package, source) for source in sources(package)}
    found = set()
    for name in imported(path):
        top, _, rest = name.partition(".")
        if top == package:
            found.add(next((known for known in (rest, rest.rpartition(".")[0]) if known in modules), "__init__"))
    return found


def imported_packages(path: Path) -> set[str]:
    """The packages that a module imports from."""
    return {name.partition(".")[0] for name in imported(path)}


def layers(package: str) -> dict[str, int]:
    """The line on which each module stands."""
    lines = LAYERS[package].strip().splitlines()
    return {module: number for number, line in enumerate(lines) for module in line.split()}


@pytest.mark.parametrize("package", LAYERS)
def test_every_module_has_a_layer(package: str) -> None:
    modules = [name_below(package, path) for path in sources(package)]

    assert sorted(layers(package)) == sorted(modules), "put the module on a line of the table above"


@pytest.mark.parametrize("package", LAYERS)
def test_imports_point_down(package: str) -> None:
    layer = layers(package)

    upward = [
        f"{package}.{module} imports {package}.{other}"
        for path in sources(package)
        for module in [name_below(package, path)]
        for other in sorted(imported_modules(package, path))
        if layer[other] <= layer[module]
    ]

    assert upward == []


def test_launcher_needs_neither_tensorflow_nor_training() -> None:
    forbidden = {"tensorflow", "keras", "tf_keras", "tensorboard", "numpy", "training"}

    found = {path.name: found for path in sources("launcher") if (found := imported_packages(path) & forbidden)}

    assert found == {"importing.py": {TENSORFLOW_ON_REQUEST}}, "only the workers' own Python may, with doctor --import"


def test_training_does_not_know_the_launcher() -> None:
    assert [path.name for path in sources("training") if "launcher" in imported_packages(path)] == []


@pytest.mark.parametrize("path", STANDING_ALONE)
def test_imports_nothing_of_ours(path: str) -> None:
    assert imported_packages(ROOT / path) & set(LAYERS) == set()


@pytest.mark.parametrize("path", STANDARD_LIBRARY_ONLY)
def test_imports_only_the_standard_library(path: str) -> None:
    ours = {"sitecustomize", "tf_launch_keras_hook"}  # the bootstrap's own files, and the one it hides

    assert imported_packages(ROOT / path) - sys.stdlib_module_names - ours == set()


SENT_TO_HOSTS = {
    path: tuple(f"launcher.{name}." for name in own)
    for package, own in {
        "agent": ("agent",),
        "examiner": ("agent", "examiner"),
        "doctor/probe": ("doctor.probe", "agent.own_directory"),
    }.items()
    for path in sources(f"launcher/{package}")
}
"""Programs that run on hosts that have nothing of ours: each file, and how the names of what it may import begin."""
TENSORFLOW_ON_REQUEST = "tensorflow"


@pytest.mark.parametrize(
    ("path", "own"), SENT_TO_HOSTS.items(), ids=[str(path.relative_to(ROOT)) for path in SENT_TO_HOSTS]
)
def test_what_is_sent_to_hosts_imports_only_the_standard_library_and_itself(path: Path, own: tuple[str, ...]) -> None:
    found = {name for name in imported(path) if name.partition(".")[0] not in sys.stdlib_module_names}

    assert [name for name in found - {TENSORFLOW_ON_REQUEST} if not name.startswith(own)] == []


@pytest.mark.parametrize("path", SENT_TO_HOSTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_what_is_sent_to_hosts_is_python_3_9(path: Path) -> None:
    ast.parse(path.read_bytes(), feature_version=(3, 9))


@pytest.mark.parametrize("package", LAYERS)
def test_names_say_something(package: str) -> None:
    definitions = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    names = {
        f"{path.relative_to(ROOT)}: {name}"
        for path in sources(package)
        for name in [
            path.stem,
            *(node.name for node in ast.walk(ast.parse(path.read_bytes())) if isinstance(node, definitions)),
        ]
        if SAYING_NOTHING & {word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+", name)}
    }

    assert names == set()


def test_command_line_starts_without_slow_imports() -> None:
    program = "import sys, launcher.cli; print(*sys.modules)"

    loaded = subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True)

    assert SLOW_TO_IMPORT & set(loaded.stdout.split()) == set()
