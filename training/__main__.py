"""`python -m training`."""

from __future__ import annotations

from training.cli import main

main()
