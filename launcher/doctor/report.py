"""The report of an examination, for a person or a machine. Pure."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from launcher.cluster.file.source import Places
from launcher.cluster.redaction import in_values, redacted_text
from launcher.doctor.checks.network import ring_seconds
from launcher.doctor.examination import Examination, HostExamination
from launcher.doctor.findings import Finding, Severity
from launcher.on_host.probe.answers import Gpus
from launcher.wording import counted, duration, harmless_line, listed, rate, size

COLOURS = {Severity.ERROR: "bold red", Severity.WARNING: "yellow", Severity.NOTE: "cyan"}
UNFOLDED = 10_000
"""Columns, if the reader is no terminal."""
SMALL_SKEW = 2.0
"""Seconds. Less may be the time that the answer took."""
LONGEST_REASON = 24
MOST_PLACES = 3
MOST_COLUMNS = 12
"""Hosts that the table of reach shows in full. Of more, it shows only those of dials that failed."""


def as_text(
    examination: Examination,
    findings: Sequence[Finding],
    *,
    verbose: bool = False,
    width: int | None = None,
    color: bool = False,
) -> str:
    """For a person: a line for each host, then the findings, the worst last.

    `verbose`: show who reaches whom, and how fast, even if all is well. `width`: columns to fold at; None: no folding.
    """
    out = io.StringIO()
    console = Console(
        file=out, width=width or UNFOLDED, force_terminal=color, no_color=not color, highlight=False, emoji=False
    )
    tables = [_hosts_table(examination)]
    if len(examination.addresses) > 1 and (verbose or examination.unreached):
        tables.append(_reach_table(examination))
    if verbose and examination.speeds:
        tables.append(_speed_table(examination))
    parts = [[table] for table in tables] + [_paragraph(finding, examination.places) for finding in findings]
    for part in [*parts, [Text(_summary(findings))]]:
        for each in part:
            console.print(each)
        console.print()
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines()[:-1]) + "\n"


def _paragraph(finding: Finding, places: Places) -> list[RenderableType]:
    subject = "" if finding.names_hosts else f"{listed(finding.hosts)}: "
    severity = (f"{finding.severity.name.lower()}: ", COLOURS[finding.severity])
    found = places.of(finding.hosts, finding.key) if finding.key else []
    where = f" ({listed(found, MOST_PLACES)})" if found else ""
    more = {"Why it matters": finding.why, "What to do": finding.remedy and f"{finding.remedy}{where}"}
    return [
        Text.assemble(severity, _plain(f"{subject}{finding.what}")),
        *(Padding(_plain(f"{name}: {text}"), (0, 0, 0, 2)) for name, text in more.items() if text),
    ]


def _plain(words: str) -> Text:
    """Words that may come from a host, without markup or anything else that a terminal obeys."""
    return Text(harmless_line(redacted_text(words)))


def _hosts_table(examination: Examination) -> Table:
    table = _table("host", "address", "Python", "TensorFlow", "GPUs", "free disk", "clock")
    for each in examination.hosts:
        table.add_row(each.name, *map(_plain, _row(each, examination.addresses.get(each.name, "none"))))
    return table


def _row(each: HostExamination, address: str) -> tuple[str, ...]:
    if each.facts is None:
        return ("not reached",)
    answers = each.answers
    return (
        address,
        answers.python.version if answers.python else "?",
        "?" if answers.packages is None else answers.packages.get("tensorflow", "none"),
        _gpus(answers.gpus),
        size(answers.room.free) if answers.room else "?",
        _clock(each.facts.ahead),
    )


def _gpus(gpus: Gpus | None) -> str:
    if gpus is None or gpus.complaint:
        return "?"
    names = [gpu.name for gpu in gpus.devices]
    kinds = [f"{names.count(name)} x {name}" for name in dict.fromkeys(names)]
    return f"{listed(kinds)}, {size(max(gpu.memory for gpu in gpus.devices) * 2**20)}" if kinds else "none"


def _clock(ahead: float) -> str:
    return "right" if abs(ahead) < SMALL_SKEW else f"{duration(abs(ahead))} {'ahead' if ahead > 0 else 'behind'}"


def _reach_table(examination: Examination) -> Table:
    """A row for each host that dials, a column for each that is dialled."""
    names = [each.name for each in examination.reached if each.name in examination.addresses]
    failed = examination.unreached
    if len(names) > MOST_COLUMNS:
        involved = {name for dials in failed.values() for dial in dials for name in (dial.dialler, dial.host)}
        names = [name for name in names if name in involved][:MOST_COLUMNS]
    table = _table("from \\ to", *names)
    for dialler in names:
        words = dict.fromkeys(names, "-") | {dial.host: "ok" for dial in examination.dialled if dial.dialler == dialler}
        for dial, why in (each for name in names for each in reversed(failed.get(name, {}).items())):
            if dial.dialler == dialler:
                words[dial.host] = why
        table.add_row(dialler, *(_plain(words[name][:LONGEST_REASON]) for name in names))
    return table


def _speed_table(examination: Examination) -> Table:
    table = _table("from", "to", "speed", "round trip", "packets sent again")
    for (sender, receiver), speed in examination.speeds.items():
        words = (rate(speed.rate), duration(speed.round_trip), str(speed.retransmitted))
        table.add_row(sender, receiver, *map(_plain, (speed.reason,) if speed.reason else words))
    return table


def _table(*headings: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in headings:
        table.add_column(Text(heading), overflow="fold")
    return table


def _summary(findings: Sequence[Finding]) -> str:
    counts = {severity: sum(each.severity is severity for each in findings) for severity in reversed(Severity)}
    told = [counted(count, name.name.lower()) for name, count in counts.items() if count]
    if counts[Severity.ERROR]:
        return f"{listed(told)}: mend the errors before you start a run."
    return f"{listed(told)}: a run can start." if told else "All is well: a run can start."


def as_record(examination: Examination, findings: Sequence[Finding], exit_code: int) -> dict[str, Any]:
    """For JSON: everything that was found out, and what it means. Secrets are redacted."""
    record = {
        "exit_code": exit_code,
        "cluster": examination.cluster.name,
        "hosts": [_host_record(each, examination) for each in examination.hosts],
        "reach": [
            {"from": dial.dialler, "to": dial.host, "address": dial.address, "port": dial.port, "reason": why}
            | {"task": dial.task.slug}
            for dial, why in examination.dialled.items()
        ],
        "network": [
            {"from": sender, "to": receiver, "bytes_a_second": round(speed.rate), "round_trip": speed.round_trip}
            | {"retransmitted": speed.retransmitted, "reason": speed.reason}
            for (sender, receiver), speed in examination.speeds.items()
        ],
        "estimate": {
            "gradient_bytes": examination.gradients.size,
            "source": examination.gradients.source,
            "seconds_a_step": ring_seconds(examination),
        },
        "findings": [
            {"severity": each.severity.name.lower(), "check": each.check, "hosts": list(each.hosts)}
            | {"what": each.what, "why": each.why, "remedy": each.remedy}
            | {"places": examination.places.of(each.hosts, each.key) if each.key else []}
            for each in findings
        ],
    }
    return dict(in_values(record))


def _host_record(each: HostExamination, examination: Examination) -> dict[str, Any]:
    facts, answers = each.facts, asdict(each.answers)
    del answers["measured"]  # all links are in `network`
    return {
        "host": each.name,
        "address": examination.addresses.get(each.name),
        "reached": facts is not None,
        "addresses": list(facts.addresses) if facts else [],
        "cpus": facts.cpus if facts else None,
        "clock_ahead": round(facts.ahead, 3) if facts else None,
        "shares_disk_with": list(each.answers.seen or ()),
        **answers,
    }
