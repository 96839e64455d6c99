"""The pages on security and on guarantees claim nothing that no test shows; modules that a page names exist."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = "".join((ROOT / "docs" / page).read_text(encoding="utf-8") for page in ("security.md", "guarantees.md"))
NAMED = re.compile(r"`(tests/[\w/.]+\.py)(?:::(test_\w+))?`")
ROWS = [line for line in PAGES.splitlines() if line.startswith("|") and set(line) - set("|-: ")]
CLAIMS = [row for row in ROWS if not row.rstrip("| ").endswith("Test")]


@cache
def functions_of(file: str) -> frozenset[str]:
    """The names of its functions."""
    tree = ast.parse((ROOT / file).read_bytes())
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))


@pytest.mark.parametrize(("file", "test"), sorted({(found[1], found[2] or "") for found in NAMED.finditer(PAGES)}))
def test_a_test_that_a_page_names_exists(file: str, test: str) -> None:
    assert not test or test in functions_of(file)
    assert (ROOT / file).exists()


@pytest.mark.parametrize("row", CLAIMS)
def test_every_row_names_a_test(row: str) -> None:
    assert all(found[2] for found in NAMED.finditer(row))
    assert NAMED.search(row)


@pytest.mark.parametrize("page", sorted((ROOT / "docs").glob("*.md")), ids=lambda page: page.name)
def test_a_module_that_a_page_names_exists(page: Path) -> None:
    named = re.findall(r"`(launcher/[\w/]+\.py)`", page.read_text(encoding="utf-8"))

    assert [each for each in named if not (ROOT / each).is_file()] == []
