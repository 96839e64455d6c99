"""What a worker would run: is it there, and what is in it? Found as Python finds it, without running any of it."""

from __future__ import annotations

import ast
import contextlib
import hashlib
import itertools
import os
import shutil
import sys
import sysconfig
from collections.abc import Iterator, Sequence
from importlib.machinery import PathFinder
from pathlib import Path

from launcher.on_host.probe.answers import ProgramFound

PACKAGES = ("site-packages", "dist-packages")
MOST_FILES = 1000
"""Files whose content is compared."""
MOST_ENTRIES = 10_000
"""What is looked at below a package: a directory with a million images may have the name of a module."""


def program(argv: Sequence[str], by_python: bool) -> ProgramFound:
    """`by_python`: the worker's command line begins with the Python that runs this."""
    if not by_python:
        path = shutil.which(os.path.expanduser(argv[0]))  # noqa: PTH111 - as the agent does it
        return ProgramFound(path, "" if path else f"there is no program {argv[0]}")
    kind, name = entry(argv[1:])
    if kind == "script":
        return _script(Path(name))
    return _module(name) if kind == "module" else ProgramFound()


def entry(arguments: Sequence[str]) -> tuple[str, str]:
    """What Python's arguments make it run: ("script", path), ("module", name) or ("", ""), as `-c` does."""
    words = list(arguments)
    while words:
        word = words.pop(0)
        if not word.startswith("-"):
            return "script", word
        if word.startswith("--"):
            del words[: word == "--check-hash-based-pycs"]
            continue
        for at, letter in enumerate(word[1:], 2):
            if letter in "mcWX":
                value = word[at:] or (words.pop(0) if words else "")
                if letter in "mc":
                    return ("module", value) if letter == "m" else ("", "")
                break
    return "", ""


def _script(path: Path) -> ProgramFound:
    file = path / "__main__.py" if path.is_dir() else path
    try:
        file.read_bytes()
    except OSError as error:
        return ProgramFound(reason=f"{path}: {error.strerror}")
    place = path.resolve() if path.is_dir() else path.resolve().parent
    return ProgramFound(str(file.absolute()), files=contents([file.resolve()], places(place)))


def _module(name: str) -> ProgramFound:
    path = [str(Path.cwd()), *sys.path]
    spec = None
    for part in range(1, name.count(".") + 2):
        spec = PathFinder.find_spec(".".join(name.split(".")[:part]), path)
        if spec is None:
            return ProgramFound(reason=f"No module named {name}")
        path = list(spec.submodule_search_locations or ())
    own = places(Path.cwd())
    files = contents(list(located(name.partition(".")[0], own)), own)
    return ProgramFound(spec.origin if spec else None, files=files)


def places(first: Path) -> list[Path]:
    """Where the user's own modules can be: not among those of Python, nor among installed packages."""
    python = {Path(sysconfig.get_path(kind)).resolve() for kind in ("stdlib", "platstdlib", "purelib", "platlib")}
    others = [path for path in (Path(entry).resolve() for entry in sys.path if entry) if path.is_dir()]
    own = [path for path in others if path.name not in PACKAGES and not python.intersection((path, *path.parents))]
    return list(dict.fromkeys([first.resolve(), *own]))


def contents(first: list[Path], own: list[Path]) -> dict[str, str]:
    """A digest of each file, and of each file of the user's own that they import, and so on."""
    waiting = list(first)
    found: dict[str, str] = {}
    while waiting and len(found) < MOST_FILES:
        path = waiting.pop()
        place = next((place for place in own if place in path.parents), path.parent)
        name = str(path.relative_to(place))
        if name in found:
            continue
        try:
            data = path.read_bytes()
        except OSError:
            continue  # it was removed meanwhile, or cannot be read: Python will say so
        found[name] = hashlib.sha256(data).hexdigest()[:16]
        for module in imported(data):
            waiting += located(module, own)
    return found


def imported(source: bytes) -> set[str]:
    """The top-level modules that a source file imports, wherever in it."""
    try:
        nodes = list(ast.walk(ast.parse(source)))
    except (SyntaxError, ValueError, RecursionError):
        return set()
    names = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    names += [node.module for node in nodes if isinstance(node, ast.ImportFrom) and node.module and not node.level]
    return {name.partition(".")[0] for name in names}


def located(module: str, own: list[Path]) -> Iterator[Path]:
    """The files of one of the user's own modules; of a package, all."""
    for place in own:
        if (place / f"{module}.py").is_file():
            yield (place / f"{module}.py").resolve()
            return
        if (place / module).is_dir():
            yield from python_files(place / module)
            return


def python_files(directory: Path) -> Iterator[Path]:
    """All below a directory. Links to directories are not followed."""
    waiting, left = [directory], MOST_ENTRIES
    while waiting:
        with contextlib.suppress(OSError), os.scandir(waiting.pop()) as entries:  # Python says what it cannot read
            for each in itertools.islice(entries, left):
                left -= 1
                if each.is_dir(follow_symlinks=False):
                    waiting.append(Path(each.path))
                elif each.name.endswith(".py") and each.is_file():
                    yield Path(each.path).resolve()
