"""All checks, one after the other. Pure."""

from __future__ import annotations

from launcher.doctor.checks import disks, gpus, hosts, network, ports, program, surroundings, versions
from launcher.doctor.examination import Examination
from launcher.doctor.findings import Finding, merged

CHECKS = (hosts, versions, program, gpus, disks, surroundings, ports, network)


def diagnosed(examination: Examination) -> list[Finding]:
    """What was found, the worst last."""
    found = merged(finding for check in CHECKS for finding in check.findings(examination))
    return sorted(found, key=lambda finding: finding.severity)
