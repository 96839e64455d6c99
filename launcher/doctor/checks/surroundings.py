"""Clocks, proxies, public addresses, limits: what a run inherits from its hosts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from launcher.cluster.redaction import redacted
from launcher.doctor.examination import Examination, HostExamination
from launcher.doctor.findings import Finding, Severity
from launcher.hosts.facts import clock_is_off, public_addresses, skewed_clocks
from launcher.wording import listed

FEW_OPEN_FILES = 1024
NO_PROXY = ("no_proxy", "no_grpc_proxy")
ANYBODY = (
    "TensorFlow's server listens on all addresses and asks nobody for a password: whoever reaches its port can run "
    "anything there as you"
)
A_FIREWALL = "let a firewall keep others off the workers' ports (`ports` keeps to a range of them)"


def findings(examination: Examination) -> Iterator[Finding]:
    """Of these."""
    facts = {each.name: each.facts for each in examination.reached if each.facts}
    for host, ahead in skewed_clocks(facts).items():
        yield Finding(
            Severity.WARNING,
            "clock",
            (host,),
            clock_is_off(ahead),
            "times in logs and TensorBoard are wrong, newer files look older, and certificates may not be valid",
            "set it, and keep it right: timedatectl set-ntp true",
        )
    for each in examination.reached:
        yield from _proxies(each)
        yield from _limits(each)
        if each.no_gate and not _is_open(each, examination):
            yield _no_gate(each.name, each.no_gate)
    open_hosts = {each.name for each in examination.reached if each.no_gate or _is_open(each, examination)}
    for host, addresses in public_addresses({name: each.addresses for name, each in facts.items()}).items():
        yield _public_address(host, addresses, host in open_hosts)


def _is_open(each: HostExamination, examination: Examination) -> bool:
    """By what the cluster file says."""
    return examination.cluster.open_network or not each.host.hold_ports


def _no_gate(host: str, reason: str) -> Finding:
    return Finding(
        Severity.WARNING,
        "gate",
        (host,),
        f"its kernel cannot keep strangers off the workers' ports: {reason}",
        ANYBODY,
        "run it on Linux 4.6 or later, outside of a sandbox that has a network of its own (gVisor), or " + A_FIREWALL,
        "ports",
    )


def _public_address(host: str, addresses: Sequence[str], is_open: bool) -> Finding:
    what = f"it has the public address{'es' if len(addresses) > 1 else ''} {listed(addresses)}"
    if is_open:
        return Finding(
            Severity.WARNING,
            "public_address",
            (host,),
            what,
            ANYBODY,
            "leave `network` and `hold_ports` as they are by default, or " + A_FIREWALL,
            "network",
        )
    return Finding(
        Severity.NOTE,
        "public_address",
        (host,),
        what,
        "only the hosts of a run can connect to its workers, but nothing that they send each other is encrypted",
        "if the way between the hosts leads through a network of others, use addresses of a private one (`address`)",
        "address",
    )


def _proxies(each: HostExamination) -> Iterator[Finding]:
    surroundings = each.answers.surroundings
    shown = redacted(surroundings.proxies) if surroundings else {}
    proxies = {name: value for name, value in shown.items() if name.lower() not in NO_PROXY}
    if proxies:
        yield Finding(
            Severity.NOTE,
            "proxy",
            (each.name,),
            f"a proxy is set: {', '.join(f'{name}={value}' for name, value in sorted(proxies.items()))}",
            "gRPC would send what the workers exchange to the proxy; a run keeps their addresses off it by "
            "`no_grpc_proxy`, and lets all else use it",
            "if your program opens connections of its own between hosts, add their addresses to `no_proxy` in `env`",
            "env",
        )


def _limits(each: HostExamination) -> Iterator[Finding]:
    surroundings = each.answers.surroundings
    if surroundings is None:
        return
    if 0 <= surroundings.open_files < FEW_OPEN_FILES:
        yield Finding(
            Severity.WARNING,
            "open_files",
            (each.name,),
            f"a program may open only {surroundings.open_files} files",
            "connections to other workers and files of the input count, too",
            "raise `nofile` in /etc/security/limits.conf there",
        )
    if surroundings.encoding.replace("-", "") != "utf8":
        yield Finding(
            Severity.WARNING,
            "encoding",
            (each.name,),
            f"Python prints {surroundings.encoding} there, not UTF-8",
            "a print of any other character ends the program with a UnicodeEncodeError",
            'write `env: {PYTHONUTF8: "1"}`',
            "env",
        )
