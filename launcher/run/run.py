"""What a run is from its beginning to its end, as a value."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from launcher.cluster.cluster import Cluster
from launcher.run.host_contexts import Names
from launcher.run.request import Request
from launcher.run_directory.directory import RunDirectory


class Run(NamedTuple):
    """One run: what was asked for, and where it is kept."""

    cluster: Cluster
    request: Request
    directory: RunDirectory
    names: Names
    started: datetime
    """When it began, or went on."""
