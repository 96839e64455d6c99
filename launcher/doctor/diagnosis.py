"""All checks, one after the other. Pure."""

from __future__ import annotations

from launcher.doctor.checks import connections, gpus, machines, network, software
from launcher.doctor.examination import Examination
from launcher.doctor.findings import Finding, merged

CHECKS = (
    *(connections.unusable, software.pythons, software.programs, gpus.findings),
    *(machines.disks, machines.surroundings, connections.addresses, network.findings),
)


def diagnosed(examination: Examination) -> list[Finding]:
    """What was found, the worst last."""
    found = merged(finding for check in CHECKS for finding in check(examination))
    return sorted(found, key=lambda finding: finding.severity)
