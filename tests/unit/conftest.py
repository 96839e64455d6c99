"""What several of these tests need."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest


@pytest.fixture
def ordinary_user() -> Iterator[None]:
    """This process without root's power to read and write everywhere."""
    if os.geteuid():
        yield
        return
    os.setresuid(65534, 65534, 0)
    yield
    os.setresuid(0, 0, 0)
