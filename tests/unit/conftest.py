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
    os.seteuid(65534)
    yield
    os.seteuid(0)
