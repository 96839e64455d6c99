"""Explains what ssh says when a host cannot be reached, and what to do about it. Pure.

ssh exits with 255 and prints a line or two for people. The patterns are those of OpenSSH (`sshconnect.c`,
`sshconnect2.c`, `kex.c`); a host's shell and our own `BOOT` print to the same stream.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from typing import NamedTuple

from launcher.cluster.redaction.commands import redacted_words
from launcher.hosts.shortage import MORE_PROCESSES
from launcher.lazy_pattern import lazy_pattern
from launcher.wording import harmless_line

NOT_FOUND = 127
"""A shell's exit code for a command that it does not have."""


class Complaint(NamedTuple):
    """Why there is no connection to a host."""

    reason: str
    remedy: str | None = None
    passing: bool = False
    """The host was only too busy: the next try may succeed."""


_CHECK_NAME = "check `host` in the cluster file, or give that name a HostName in your ssh configuration"
_CHECK_HOST = "is it up, and is this its name, address and port? Try: {ssh} {host} true"
_ACCEPT = "if you trust it, accept it with: {ssh} -o StrictHostKeyChecking=accept-new {host} true"
_NO_PYTHON = "install it there (Debian, Ubuntu: apt install python3); 3.9 or later will do"
_AT = r"connect to (?:host|address) (?P<name>\S+ port [^\s:]+): "
_COMPLAINTS: tuple[tuple[str, str, str | None], ...] = (
    (r"Could not resolve hostname (?P<name>\S+?):", "ssh cannot resolve the name {name}", _CHECK_NAME),
    (
        r"REMOTE HOST IDENTIFICATION HAS CHANGED",
        "its host key is not the one that this machine knows: another machine answers, or it was set up anew",
        "only if you know why it changed: {forget} && {ssh} -o StrictHostKeyChecking=accept-new {host} true",
    ),
    (r"Host key verification failed|No \S+ host key is known for", "this machine does not know its host key", _ACCEPT),
    (
        r"Permissions [0-7]+ for '(?P<path>[^'\n]+)' are ",
        "ssh does not use the key {path}, because others can read it",
        "chmod 600 {path}",
    ),
    (
        r"Permission denied \((?P<name>[^()\n]*)\)",
        "it refused the login (allowed there: {name})",
        "put your public key there: ssh-copy-id {host}; or load its key: ssh-add. Then this must work without a "
        "question: {ssh} -o BatchMode=yes {host} true",
    ),
    (
        r"Too many authentication failures",
        "it refused the login: ssh offered too many keys",
        "name the right one in your ssh configuration (IdentityFile, IdentitiesOnly yes)",
    ),
    (
        r"stdio forwarding failed|administratively prohibited|open failed: connect failed",
        "the jump host could not connect to it",
        _CHECK_HOST,
    ),
    (rf"{_AT}Connection refused", "{name} refuses connections", _CHECK_HOST),
    (rf"{_AT}(?:Connection|Operation) timed out", "{name} does not answer", _CHECK_HOST),
    (rf"{_AT}(?P<why>No route to host|Network is unreachable)", "{name}: {why}", _CHECK_HOST),
    (
        r"(?m)Connection timed out during banner exchange|^Connection to \S+ port \d+ timed out",
        "it accepts connections, but does not go on as an ssh server does: it hangs or is overloaded, or is none",
        _CHECK_HOST,
    ),
    (
        r"(?m)^(?P<name>Can't open user config file .*|.*[Bb]ad (?:configuration )?option.*|.*terminating, \d+ bad .*)",
        "{name}",
        "mend the ssh configuration, or `ssh` in the cluster file",
    ),
    (r"tf-launch: (?P<name>the `python3` of this host is .*)", "{name}", _NO_PYTHON),
    (r"tf-launch: (?P<name>cannot start a process: .*)", "{name}", MORE_PROCESSES),
    (
        r"\bfork: (?:retry: )?Resource temporarily unavailable|\bCannot fork\b",
        "its shell cannot start a process",
        MORE_PROCESSES,
    ),
    (r"tf-launch: (?P<name>/proc [^;\n]*); mount it", "{name}", "mount -t proc proc /proc there, as root"),
    (
        r"python3: (?:command )?not found|Unknown command:? '?python3|python3: No such file|python3: Command not found",
        "it has no `python3` in the PATH of a command over ssh",
        _NO_PYTHON,
    ),
    (r"This account is currently not available|nologin", "the account there may not log in", "use another `user@host`"),
)
_PASSING = (
    r"kex_exchange_identification|ssh_exchange_identification|Connection (?:closed|reset) by (?:remote host|\S+ port)"
    r"|Exceeded MaxStartups|Not allowed at this time"
)
_FORGET = lazy_pattern(r"ssh-keygen -f [^\n]+")
"""Debian's ssh prints the command that removes the old key."""
_PATH = lazy_pattern(r"[/~][\w/.@%+,=: -]*")
_KNOWN_NAME = lazy_pattern(r"\w[\w.:%-]*|\[[\w.:%-]+\]:\d+")
"""An entry of known_hosts: a name or an address; with a port, in brackets."""
_NOISE = lazy_pattern(r"\s*$|Warning: Permanently added|.*setlocale|\*\* (?:WARNING|This session|The server)")
LONGEST = 300
"""Characters of a host's own text that are shown."""


def explained(said: str, ended: str, host: str, options: Sequence[str]) -> Complaint:
    """Explain why a connection failed. The host may have chosen the text, so no command in a remedy comes from there.

    Args:
        said: stderr of ssh, of the host's shell and of the agent.
        ended: how ssh ended, in case that there is no text.
        host: the ssh destination.
        options: the ssh options of the cluster file, which the commands in a remedy repeat.
    """
    for pattern, reason, remedy in _COMPLAINTS:
        if found := re.search(pattern, said):
            groups = found.groupdict()
            words = {
                "host": shlex.quote(host),
                "ssh": shlex.join(redacted_words(["ssh", *options])),
                "forget": _forgetting(said, host),
                "path": _path(groups.get("path", "")),
            }
            cut = {name: harmless_line(word[:LONGEST]) for name, word in groups.items()}
            return Complaint(reason.format(**cut), remedy and remedy.format(**words))
    lines = [line.strip() for line in said.splitlines() if not _NOISE().match(line)]
    last = harmless_line(lines[-1][:LONGEST]) if lines else ended
    if re.search(_PASSING, said):
        remedy = "its sshd may be overloaded (MaxStartups) or refuse this machine; its log there tells"
        return Complaint(last, remedy, passing=True)
    return Complaint(last)


def _forgetting(said: str, host: str) -> str:
    """The command that removes a host's old key from the file where ssh found it."""
    found = _FORGET().search(said)
    try:
        words = shlex.split(found[0]) if found else []
    except ValueError:
        words = []
    if len(words) == 5 and words[3] == "-R" and _PATH().fullmatch(words[2]) and _KNOWN_NAME().fullmatch(words[4]):
        return shlex.join(words)
    return shlex.join(["ssh-keygen", "-R", host.rpartition("@")[2]])


def _path(word: str) -> str:
    """A path as one word of a command; a placeholder if it does not look like a path."""
    return shlex.quote(word) if _PATH().fullmatch(word) else "KEY"
