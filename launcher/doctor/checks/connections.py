"""Which hosts can be used at all: ssh, the same machine twice, ports for the workers."""

from __future__ import annotations

from collections.abc import Iterator

from launcher.doctor.examination import Examination
from launcher.doctor.findings import Finding, Severity
from launcher.hosts.facts import same_machines

NO_REMEDY = "see what `ssh {host} true` says, and the log of sshd there"


def findings(examination: Examination) -> Iterator[Finding]:
    """Of these."""
    for each in examination.hosts:
        if each.complaint is not None:
            yield Finding(
                Severity.ERROR,
                "connection",
                (each.name,),
                each.complaint.reason,
                "no worker can be started there, and nothing else could be found out about it",
                each.complaint.remedy or ("" if each.host.is_local else NO_REMEDY.format(host=each.name)),
                "host",
            )
        elif each.no_ports:
            yield Finding(
                Severity.ERROR,
                "ports",
                (each.name,),
                f"no ports for its workers: {each.no_ports}",
                "each worker listens at a port of its own",
                "end what has them (`ss -ltnp` there tells), or change `ports`",
                "ports",
            )
    for one, other in same_machines({each.name: each.facts for each in examination.hosts if each.facts}):
        yield Finding(
            Severity.ERROR,
            "same_machine",
            (one, other),
            "these are the same machine under two names",
            "its cores, GPUs and disk would be shared by workers that do not know of each other",
            "list it once, with all of its workers",
            "host",
        )
