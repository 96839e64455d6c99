"""Imports point down only, and the borders of docs/design.md hold."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections import Counter
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[2]

# From top to bottom: a room may import from the lines below its own, never from its own line or above.
LAUNCHER = """
    __main__
    commands
    doctor
    run
    restoring
    gathering sync
    transfer
    hosts run_directory console
    cluster
    caller on_host
    errors wording lazy_pattern
    __init__
"""
TRAINING = """
    __main__
    cli
    fit
    callbacks checkpoint export data
    strategy
    models devices config tf_config interrupt output
    errors keras_fix
    __init__
"""
ROOMS = {"launcher": LAUNCHER, "training": TRAINING}
STANDING_ALONE = [
    "launcher/on_host/bootstrap/sitecustomize.py",
    "launcher/on_host/bootstrap/tf_launch_after_import.py",
    "launcher/on_host/bootstrap/tf_launch_keras2.py",
    "launcher/on_host/bootstrap/tf_launch_keras_hook.py",
    "launcher/on_host/bootstrap/tf_launch_tf_config_hook.py",
]
COPIED_AS_A_FOLDER = sorted((ROOT / "training/keras_fix").glob("*.py"))
"""Whose modules name each other by `.name`, so that the folder may lie anywhere and have any name."""
CHAPTERS = {path.stem for path in COPIED_AS_A_FOLDER}
SAYING_NOTHING = {"manager", "managers", "util", "utils", "helper", "helpers", "common"}
VAGUE_METHODS = {"do", "get", "handle", "process", "read", "say", "take"}
"""Methods that a reader cannot tell apart once several classes have them."""
SLOW_TO_IMPORT = {"asyncio", "keras", "msgspec", "numpy", "portpicker", "psutil", "rich", "tensorflow", "yaml"}


@cache
def sources(package: str) -> list[Path]:
    """All modules of a package."""
    return sorted((ROOT / package).rglob("*.py"))


def name_below(package: str, path: Path) -> str:
    """`data.pipeline` for training/data/pipeline.py, `data` for training/data/__init__.py."""
    parts = path.relative_to(ROOT / package).with_suffix("").parts
    return ".".join(parts if len(parts) == 1 else [part for part in parts if part != "__init__"])


class Names(NamedTuple):
    """Those that a module contains."""

    imported: frozenset[str]
    """Full names of all that it imports, wherever in the module: `from a import b` gives `a.b`."""
    defined: frozenset[str]
    """Of its classes and functions."""


def imported(path: Path) -> frozenset[str]:
    return names(path).imported


@cache
def names(path: Path) -> Names:
    found: set[str] = set()
    defined: set[str] = set()
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            defined.add(node.name)
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert (node.level == 1) is (path in COPIED_AS_A_FOLDER and node.module in CHAPTERS), (
                f"{path}:{node.lineno}: write the whole name of the module"
            )
            module = f"training.keras_fix.{node.module}" if node.level else node.module
            found |= {f"{module}.{alias.name}" for alias in node.names}
    return Names(frozenset(found), frozenset(defined))


@cache
def modules_of(package: str) -> frozenset[str]:
    return frozenset(name_below(package, source) for source in sources(package))


def imported_modules(package: str, path: Path) -> set[str]:
    """What a module imports of its own package, as names of modules."""
    modules = modules_of(package)
    found = set()
    for name in imported(path):
        top, _, rest = name.partition(".")
        if top == package:
            found.add(next((known for known in (rest, rest.rpartition(".")[0]) if known in modules), "__init__"))
    return found


def imported_packages(path: Path) -> set[str]:
    """The packages that a module imports from."""
    return {name.partition(".")[0] for name in imported(path)}


def rooms(package: str) -> dict[str, int]:
    """The line on which each room stands."""
    lines = ROOMS[package].strip().splitlines()
    return {room: number for number, line in enumerate(lines) for room in line.split()}


def room_of(module: str) -> str:
    """The file or folder directly below the package in which a module is."""
    return module.partition(".")[0]


@pytest.mark.parametrize("package", ROOMS)
def test_every_room_has_a_line(package: str) -> None:
    found = {room_of(name_below(package, path)) for path in sources(package)}

    assert sorted(rooms(package)) == sorted(found), "put the room on a line of the table above"


@pytest.mark.parametrize("package", ROOMS)
def test_imports_point_down(package: str) -> None:
    line = rooms(package)

    upward = [
        f"{package}.{module} imports {package}.{other}"
        for path in sources(package)
        for module in [name_below(package, path)]
        for other in sorted(imported_modules(package, path))
        if room_of(other) != room_of(module) and line[room_of(other)] <= line[room_of(module)]
    ]

    assert upward == []


def arrows() -> dict[str, set[str]]:
    """Which rooms of the launcher each of its rooms imports from."""
    found: dict[str, set[str]] = {}
    for path in sources("launcher"):
        room = room_of(name_below("launcher", path))
        found.setdefault(room, set()).update(
            {room_of(module) for module in imported_modules("launcher", path)} - {room}
        )
    return found


def reached(room: str, arrows: dict[str, set[str]]) -> set[str]:
    """All rooms below one, however many arrows away."""
    return arrows[room].union(*(reached(other, arrows) for other in arrows[room]))


def picture() -> str:
    """The rooms of the launcher, in the language of mermaid; an arrow that follows from two others is left out."""
    found = arrows()
    lines = ["flowchart TD"]
    for room in sorted(found, key=rooms("launcher").__getitem__):
        implied = {"__init__"}.union(*(reached(other, found) for other in found[room]))
        lines += [f"    {room.strip('_')} --> {other}" for other in sorted(found[room] - implied)]
    return "\n".join(lines)


def test_the_page_shows_the_rooms_as_they_are() -> None:
    page = (ROOT / "docs" / "design.md").read_text(encoding="utf-8")

    assert picture() == page.partition("```mermaid\n")[2].partition("\n```")[0]


@pytest.mark.parametrize("package", ROOMS)
def test_no_modules_import_each_other_in_a_circle(package: str) -> None:
    imports = {name_below(package, path): imported_modules(package, path) for path in sources(package)}

    TopologicalSorter(imports).prepare()  # raises CycleError, which names the circle


@pytest.mark.parametrize("package", ROOMS)
def test_packages_themselves_hold_no_code(package: str) -> None:
    says_more = (ast.ClassDef, ast.FunctionDef, ast.If, ast.For, ast.Expr)

    assert [
        str(path)
        for path in sources(package)
        if path.name == "__init__.py"
        for node in ast.parse(path.read_bytes()).body[1:]
        if isinstance(node, says_more)
    ] == []


def test_launcher_needs_neither_tensorflow_nor_training() -> None:
    forbidden = {"tensorflow", "keras", "tf_keras", "tensorboard", "numpy", "training"}

    found = {path.name: found for path in sources("launcher") if (found := imported_packages(path) & forbidden)}

    assert found == {"machine.py": {TENSORFLOW_ON_REQUEST}}, "only the workers' own Python may, with doctor --import"


def test_training_does_not_know_the_launcher() -> None:
    assert [path.name for path in sources("training") if "launcher" in imported_packages(path)] == []


@pytest.mark.parametrize("path", COPIED_AS_A_FOLDER, ids=lambda path: path.name)
def test_the_keras_fix_imports_itself_keras_and_tensorflow(path: Path) -> None:
    needed = {name for name in imported(path) if not name.startswith("training.keras_fix.")}

    assert {name.partition(".")[0] for name in needed} - sys.stdlib_module_names <= {"keras", "tensorflow"}


@pytest.mark.parametrize("path", STANDING_ALONE)
def test_imports_only_the_standard_library(path: str) -> None:
    ours = {"sitecustomize", "tf_launch_keras_hook"}  # the bootstrap's own files, and the one it hides

    assert imported_packages(ROOT / path) - sys.stdlib_module_names - ours == set()


SENT_TO_HOSTS = {
    path: tuple(f"launcher.on_host.{name}." for name in own)
    for program, own in {
        "agent": ("agent",),
        "leftovers": ("agent", "leftovers"),
        "probe": ("agent", "probe"),
    }.items()
    for path in sources(f"launcher/on_host/{program}")
}
"""Programs that run on hosts that have nothing of ours: each file, and how the names of what it may import begin."""
TENSORFLOW_ON_REQUEST = "tensorflow"


@pytest.mark.parametrize(
    ("path", "own"), SENT_TO_HOSTS.items(), ids=[str(path.relative_to(ROOT)) for path in SENT_TO_HOSTS]
)
def test_what_is_sent_to_hosts_imports_only_the_standard_library_and_itself(path: Path, own: tuple[str, ...]) -> None:
    found = {name for name in imported(path) if name.partition(".")[0] not in sys.stdlib_module_names}

    assert [name for name in found - {TENSORFLOW_ON_REQUEST} if not name.startswith(own)] == []


@pytest.mark.parametrize("path", [*SENT_TO_HOSTS, *COPIED_AS_A_FOLDER], ids=lambda path: str(path.relative_to(ROOT)))
def test_what_is_sent_to_hosts_is_python_3_9(path: Path) -> None:
    ast.parse(path.read_bytes(), feature_version=(3, 9))


@pytest.mark.parametrize("package", ROOMS)
def test_names_say_something(package: str) -> None:
    found = {
        f"{path.relative_to(ROOT)}: {name}"
        for path in sources(package)
        for name in [path.stem, *names(path).defined]
        if SAYING_NOTHING & {word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+", name)}
    }

    assert found == set()


def classes(package: str) -> list[ast.ClassDef]:
    """All classes of a package."""
    trees = (ast.parse(path.read_bytes()) for path in sources(package))
    return [node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]


@pytest.mark.parametrize("package", ROOMS)
def test_no_two_classes_have_one_name(package: str) -> None:
    count = Counter(each.name for each in classes(package))

    assert [name for name, many in count.items() if many > 1] == []


@pytest.mark.parametrize("package", ROOMS)
def test_a_vague_method_name_belongs_to_one_class_at_most(package: str) -> None:
    methods = (node.name for each in classes(package) for node in each.body if isinstance(node, ast.FunctionDef))
    count = Counter(methods)

    assert [name for name in VAGUE_METHODS if count[name] > 1] == []


def test_command_line_starts_without_slow_imports() -> None:
    program = "import sys, launcher.commands.cli, launcher.commands.run; print(*sys.modules)"

    loaded = subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True)

    assert SLOW_TO_IMPORT & set(loaded.stdout.split()) == set()
