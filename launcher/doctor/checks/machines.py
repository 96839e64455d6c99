"""What a run finds on its hosts: the disk where it writes, clocks, proxies, public addresses, limits. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from launcher.cluster.redaction import redacted
from launcher.doctor.examination import Examination, HostExamination
from launcher.doctor.findings import ERROR, NOTE, WARNING, Finding
from launcher.hosts.facts import clock_is_off, public_addresses, skewed_clocks
from launcher.on_host.agent.own_directory import WOULD_RUN
from launcher.on_host.probe.answers import DiskRoom, Surroundings
from launcher.wording import listed, size

NOT_WRITTEN = "logs and checkpoints could not be written"
FULL = Finding(ERROR, "disk_full", "run_dir").because(NOT_WRITTEN)
UNWRITABLE = Finding(ERROR, "unwritable", "run_dir").because(NOT_WRITTEN)
LOW = Finding(WARNING, "disk_low", "run_dir").because("logs and checkpoints may fill it during the training")
UNSAFE = Finding(ERROR, "unsafe", "run_dir").because("workers would run that, so nothing would be started")
SHARED = Finding(NOTE, "shared", "run_dir", names_hosts=True).because(
    "a worker finds there what another one has written"
)
NOT_SHARED = Finding(NOTE, "not_shared", "run_dir", names_hosts=True).because(
    "a worker finds there only what workers of its own host have written",
    "nothing for checkpoints: before a restart the launcher brings the chief's newest one to every host. For "
    "other files that all workers need, name a `run_dir` on a disk that all share",
)
LITTLE = 1e9
"""Bytes: less than a few checkpoints of a usual model."""
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


def disks(examination: Examination) -> Iterator[Finding]:
    """Where runs are written: can they be, is there room, is it one disk for all?"""
    for each in examination.reached:
        yield from (_unsafe(each, why) for why in each.answers.unsafe or ())
        if each.answers.room is not None and each.answers.unwritable is not None:
            yield from _written(each, each.answers.room, each.answers.unwritable)
    yield from _shared(examination)


def _written(each: HostExamination, room: DiskRoom, unwritable: str) -> Iterator[Finding]:
    another = "--run-dir DIR names another one" if each.host.is_local else "name another `run_dir` for it"
    left = f"{size(room.free)} of {size(room.total)} are free"
    if "No space left" in unwritable or "quota" in unwritable:
        what = f"the disk of the output directory is full: {unwritable}; {left}"
        yield FULL.on(each.name, what, remedy=f"make room below {room.there}, or {another}")
    elif unwritable:
        what = (
            f"the output directory {room.root} cannot be written: {unwritable}; "
            f"{room.there} belongs to {room.owner} (mode {room.mode}), and the workers run as {room.user}"
        )
        yield UNWRITABLE.on(each.name, what, remedy=f"make it writable for {room.user}, or {another}")
    elif room.free < LITTLE:
        yield LOW.on(each.name, f"little room for {room.root}: {left}", remedy=f"make room, or {another}")


def _unsafe(each: HostExamination, why: str) -> Finding:
    """An error on a host behind ssh, which would refuse the run; on this machine a warning."""
    what, _, remedy = why.partition(f"{WOULD_RUN}; ")
    found = UNSAFE.on(each.name, what, remedy=remedy, key="workdir" if "`workdir`" in remedy else "run_dir")
    if not each.host.is_local:
        return found
    return found.on(
        each.name, what, severity=WARNING, why="somebody could exchange the files of a run, which its workers load"
    )


def _shared(examination: Examination) -> Iterator[Finding]:
    """Which hosts share the disk, as far as they see each other's files."""
    seen = {each.name: each.answers.seen for each in examination.reached if each.answers.seen is not None}
    groups = {name: tuple(sorted((name, *others))) for name, others in seen.items()}
    for group in sorted(set(groups.values())):
        if len(group) > 1:
            yield SHARED.on(group, f"{listed(group)} share the disk of the output directory")
    if len(set(groups.values())) > 1:
        yield NOT_SHARED.on(tuple(groups), "the output directories of the hosts are not all on one disk")


def surroundings(examination: Examination) -> Iterator[Finding]:
    """What a run inherits from its hosts."""
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


def _inherited(host: str, found: Surroundings) -> Iterator[Finding]:
    shown = redacted(found.proxies)
    proxies = [f"{name}={value}" for name, value in sorted(shown.items()) if name.lower() not in NO_PROXY]
    if proxies:
        yield PROXY.on(host, f"a proxy is set: {', '.join(proxies)}")
    if 0 <= found.open_files < FEW_OPEN_FILES:
        yield OPEN_FILES.on(host, f"a program may open only {found.open_files} files")
    if found.encoding.replace("-", "") != "utf8":
        yield ENCODING.on(host, f"Python prints {found.encoding} there, not UTF-8")
