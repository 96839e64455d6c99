"""Clocks, proxies, public addresses, limits: what a run inherits from its hosts."""

from __future__ import annotations

from collections.abc import Iterator

from launcher.cluster.redaction import redacted
from launcher.doctor.examination import Examination
from launcher.doctor.findings import NOTE, WARNING, Finding
from launcher.hosts.facts import clock_is_off, public_addresses, skewed_clocks
from launcher.on_host.probe.answers import Surroundings
from launcher.wording import listed

ANYBODY = (
    "TensorFlow's server listens on all addresses and asks nobody for a password: whoever reaches its port can run "
    "anything there as you"
)
A_FIREWALL = "let a firewall keep others off the workers' ports (`ports` keeps to a range of them)"
CLOCK = Finding(WARNING, "clock").because(
    "times in logs and TensorBoard are wrong, newer files look older, and certificates may not be valid",
    "set it, and keep it right: timedatectl set-ntp true",
)
NO_GATE = Finding(WARNING, "gate", "ports").because(
    ANYBODY,
    "run it on Linux 4.6 or later, outside of a sandbox that has a network of its own (gVisor), or " + A_FIREWALL,
)
OPEN_TO_THE_PUBLIC = Finding(WARNING, "public_address", "network").because(
    ANYBODY,
    "leave `network` and `hold_ports` as they are by default, or " + A_FIREWALL,
)
PUBLIC_ADDRESS = Finding(NOTE, "public_address", "address").because(
    "only the hosts of a run can connect to its workers, but nothing that they send each other is encrypted",
    "if the way between the hosts leads through a network of others, use addresses of a private one (`address`)",
)
PROXY = Finding(NOTE, "proxy", "env").because(
    "gRPC would send what the workers exchange to the proxy; a run keeps their addresses off it by "
    "`no_grpc_proxy`, and lets all else use it",
    "if your program opens connections of its own between hosts, add their addresses to `no_proxy` in `env`",
)
OPEN_FILES = Finding(WARNING, "open_files").because(
    "connections to other workers and files of the input count, too",
    "raise `nofile` in /etc/security/limits.conf there",
)
ENCODING = Finding(WARNING, "encoding", "env").because(
    "a print of any other character ends the program with a UnicodeEncodeError",
    'write `env: {PYTHONUTF8: "1"}`',
)
FEW_OPEN_FILES = 1024
NO_PROXY = ("no_proxy", "no_grpc_proxy")


def findings(examination: Examination) -> Iterator[Finding]:
    facts = {each.name: each.facts for each in examination.reached if each.facts}
    for host, ahead in skewed_clocks(facts).items():
        yield CLOCK.on(host, clock_is_off(ahead))
    open_hosts = {
        host.name for host in examination.cluster.hosts if examination.cluster.open_network or not host.hold_ports
    }
    for each in examination.reached:
        if each.answers.surroundings is not None:
            yield from _inherited(each.name, each.answers.surroundings)
        if each.answers.gate and each.name not in open_hosts:
            open_hosts.add(each.name)
            yield NO_GATE.on(each.name, f"its kernel cannot keep strangers off the workers' ports: {each.answers.gate}")
    for host, addresses in public_addresses({name: each.addresses for name, each in facts.items()}).items():
        finding = OPEN_TO_THE_PUBLIC if host in open_hosts else PUBLIC_ADDRESS
        yield finding.on(host, f"it has the public address{'es' if len(addresses) > 1 else ''} {listed(addresses)}")


def _inherited(host: str, surroundings: Surroundings) -> Iterator[Finding]:
    shown = redacted(surroundings.proxies)
    proxies = [f"{name}={value}" for name, value in sorted(shown.items()) if name.lower() not in NO_PROXY]
    if proxies:
        yield PROXY.on(host, f"a proxy is set: {', '.join(proxies)}")
    if 0 <= surroundings.open_files < FEW_OPEN_FILES:
        yield OPEN_FILES.on(host, f"a program may open only {surroundings.open_files} files")
    if surroundings.encoding.replace("-", "") != "utf8":
        yield ENCODING.on(host, f"Python prints {surroundings.encoding} there, not UTF-8")
