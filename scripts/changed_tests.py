"""Which files of tests a change can break: those that import what has changed, start it as a program, or read it."""

from __future__ import annotations

import ast
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path

TRAINING, SSH, PROCESS, UNIT = TIERS = ("tests/training", "tests/ssh", "tests/process", "tests/unit")
IMPORTED = ("launcher", "training", "tests")
"""The directories whose imports are followed."""
NOT_IMPORTED = ("tests/process/programs/", "tests/training/scripts/")
STARTS = {
    "tests/support/launching.py": ("launcher/",),
    "tests/support/warm_tensorflow.py": ("tests/support/tensorflow_server.py",),
    "tests/training/conftest.py": ("launcher/", "training/"),
}
"""What is started as a program: all of the package, since what it sends to hosts is no import either."""
READS_FILES = ("parents[2]", "import ROOT")
"""Words of a test that reads files of the checkout: sources, pages, examples. Which ones nobody knows."""
PAGES = ("docs/", "README.md", "CONTRIBUTING.md", "CHANGELOG.md", "LICENSE")
READ_BY = {
    **{f"{tier}/": (tier,) for tier in TIERS},
    **dict.fromkeys(PAGES, (UNIT,)),
    "cluster_configs/": (UNIT, PROCESS),
    "scripts/": (UNIT, PROCESS, SSH),
}
"""Which tests read or start what is not imported. What stands nowhere here may break every test."""


def changed_files(root: Path) -> list[str]:
    """Whatever differs from where this branch left `main`, untracked files included."""
    base = git(root, "merge-base", "main", "HEAD")
    return [*git(root, "diff", "--name-only", *base), *git(root, "ls-files", "--others", "--exclude-standard")]


def git(root: Path, *words: str) -> list[str]:
    return subprocess.run(["git", *words], cwd=root, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()


def broken_by(changed: Iterable[str], root: Path) -> list[str]:
    """The files of tests that these files can break, in the order in which they run."""
    sources = {str(path.relative_to(root)) for top in IMPORTED for path in (root / top).rglob("*.py")}
    sources = {path for path in sources if not path.startswith(NOT_IMPORTED)}
    needed = {path: set(needs_of(path, root, sources)) for path in sources}
    broken: set[str] = set()
    for path in changed:
        if path in sources:
            broken.add(path)
        elif not (root / path).exists() and path.startswith(IMPORTED) and path.endswith(".py"):
            continue  # removed: whoever imported it has changed, too
        else:
            broken |= {each for each in sources if each.startswith(readers_of(path))}
    while more := {path for path, needs in needed.items() if path not in broken and needs & broken}:
        broken |= more
    tests = [path for path in broken if path.startswith(TIERS) and Path(path).name.startswith("test_")]
    return sorted(tests, key=lambda path: (TIERS.index(str(Path(path).parent)), path))


def readers_of(path: str) -> tuple[str, ...]:
    """Of a file that is not imported: the directories of the tests that may read it."""
    return next((tiers for place, tiers in READ_BY.items() if path.startswith(place)), TIERS)


def needs_of(path: str, root: Path, sources: set[str]) -> Iterator[str]:
    """The files that a file of Python imports, starts as programs, or may read."""
    text = (root / path).read_text()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from (file for alias in node.names for file in files_of(alias.name, path, sources))
        elif isinstance(node, ast.ImportFrom):
            names = [f"{node.module or ''}.{alias.name}".lstrip(".") for alias in node.names]
            yield from (file for name in names for file in files_of(name, path, sources))
    if path.startswith(TIERS):
        yield from ("tests/conftest.py", str(Path(path).with_name("conftest.py")))
    if path.startswith(TIERS) and any(words in text for words in READS_FILES):
        yield from (each for each in sources if not each.startswith("tests/"))
    yield from (each for each in sources if each.startswith(STARTS.get(path, ())))


def files_of(name: str, importer: str, sources: set[str]) -> Iterator[str]:
    """The files that are loaded when a module, or a name in one, is imported: packages of ours, beside it, in tests."""
    parts = name.split(".")
    for place in (Path(), Path("tests"), Path(importer).parent):
        for length in range(1, len(parts) + 1):
            module = place.joinpath(*parts[:length])
            yield from (file for file in (f"{module}.py", f"{module}/__init__.py") if file in sources)
