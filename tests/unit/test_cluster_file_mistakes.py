"""Every mistake in a cluster file is named with its place."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from launcher.cluster.file.reading import read_cluster_file
from launcher.errors import EXIT_USAGE, ClusterFileError

Mistakes = Callable[[str | bytes], list[str]]

HOST = "hosts: [{host: localhost, workers: 2}]\n"


@pytest.fixture
def mistakes(tmp_path: Path) -> Mistakes:
    """The lines that reading a text is answered with, without the directory."""

    def mistakes(text: str | bytes) -> list[str]:
        path = tmp_path / "c.yaml"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return answer(path)

    return mistakes


def answer(path: Path) -> list[str]:
    with pytest.raises(ClusterFileError) as raised:
        read_cluster_file(path)
    assert raised.value.exit_code == EXIT_USAGE
    return str(raised.value).replace(f"{path.parent}/", "").split("\n")


# One row a mistake: the file, and the one line of the answer (from the line number on).
ONE_MISTAKE = {
    "unknown key": (
        HOST + "restrat: {}\n",
        (
            "2:1: unknown key 'restrat' in the cluster file; allowed are name, hosts, defaults, ssh, command, "
            "per_task, restart, timeouts, network, sync, collect, collect_interval; did you mean 'restart'?"
        ),
    ),
    "unknown key of a host": (
        "hosts:\n  - host: localhost\n    worker: 2\n",
        (
            "3:5: unknown key 'worker' in a host; allowed are host, address, workers, tasks, gpus, python, workdir, "
            "env, ports, hold_ports, run_dir, ssh; did you mean 'workers'?"
        ),
    ),
    "key of a host at the top": (
        HOST + "env: {}\n",
        "2:1: unknown key 'env' in the cluster file; it belongs to a host: write it below `hosts:` or `defaults:`",
    ),
    "duplicate key": (
        "hosts:\n  - host: localhost\n    workers: 2\n    workers: 3\n",
        "4:5: the key 'workers' a second time, first at line 3, column 5; keep one of them",
    ),
    "wrong type": (
        "hosts: [{host: localhost, workers: two}]",
        "1:36: workers is the text 'two'; allowed is a whole number in plain digits, 0 to 9999",
    ),
    "gpus as a number": (
        "hosts: [{host: a, gpus: 2}]",
        "1:25: gpus is the number 2; allowed is a list such as [0, 1]",
    ),
    "an address that is the dialler's own": (
        "hosts:\n  - {host: a, address: 127.0.0.1}\n  - {host: b, address: 10.0.0.2}\n",
        "2:24: address 127.0.0.1 in a cluster of 2 hosts, each of which would dial itself; write the address at which "
        "the other hosts reach this one, or leave it out: it is found then",
    ),
    "an address that is the dialler's own, by name": (
        "hosts: [{host: a}, {host: localhost, address: localhost}]",
        "1:47: address localhost in a cluster of 2 hosts, each of which would dial itself; write the address at which "
        "the other hosts reach this one, or leave it out: it is found then",
    ),
    "run directory of localhost": (
        "hosts: [{host: localhost, run_dir: /scratch}]",
        "1:36: run_dir of localhost; the option --run-dir names it here: leave it out",
    ),
    "ssh of localhost": (
        "hosts: [{host: localhost, ssh: {connect_timeout: 5s}}]",
        "1:32: ssh of localhost; no ssh is used here: leave it out",
    ),
    "no hosts": (
        "name: x\n",
        "1:1: the cluster file has no key 'hosts'; write for example {hosts: [{host: localhost, workers: 2}]}",
    ),
    "empty hosts": (
        "hosts: []\n",
        "1:8: hosts is an empty list; allowed is a list such as [{host: localhost, workers: 2}]",
    ),
    "host without a name": (
        "hosts: [{workers: 2}]\n",
        "1:9: a host has no key 'host'; write for example {host: localhost, workers: 2}",
    ),
    "host that is a text": (
        "hosts: [gpu-a]\n",
        "1:9: a host is the text 'gpu-a'; allowed is a mapping such as {host: localhost, workers: 2}",
    ),
    "host that ssh takes for an option": (
        "hosts: [{host: -oProxyCommand=x}]\n",
        (
            "1:16: host is the text '-oProxyCommand=x'; allowed is localhost or an ssh destination: an alias, a host "
            "or user@host"
        ),
    ),
    "zero workers": (
        "hosts: [{host: localhost, workers: 0}]",
        "1:36: the host runs no task; give it 1 or more, or leave the host out",
    ),
    "negative workers": (
        "hosts: [{host: localhost, workers: -1}]",
        "1:36: workers is the number -1; allowed is a whole number in plain digits, 0 to 9999",
    ),
    "octal number": (
        "hosts: [{host: localhost, workers: 010}]",
        "1:36: workers is the number 010; allowed is a whole number in plain digits, 0 to 9999",
    ),
    "too many tasks": (
        "hosts: [{host: a, workers: 9000}, {host: b, workers: 9000}]",
        "1:54: 18000 tasks so far; a cluster has at most 10000",
    ),
    "two chiefs": (
        "hosts:\n  - {host: a, tasks: {chief: 1}}\n  - {host: b, tasks: {chief: 1}}\n",
        "3:30: 2 tasks of type chief so far; TensorFlow allows one in a cluster",
    ),
    "two evaluators": (
        "hosts: [{host: a, tasks: {worker: 1, evaluator: 2}}]",
        "1:49: 2 tasks of type evaluator so far; TensorFlow allows one in a cluster",
    ),
    "task type master": (
        "hosts: [{host: a, tasks: {master: 1, worker: 1}}]",
        "1:27: unknown key 'master' in tasks; TensorFlow 2 calls it 'chief'; allowed are chief, worker, ps, evaluator",
    ),
    "a command for an unknown type": (
        HOST + "per_task:\n  server: [python, ps.py]\n",
        "3:3: unknown key 'server' in per_task; allowed are chief, worker, ps, evaluator",
    ),
    "a command for a former type": (
        HOST + "per_task: {master: [./a]}\n",
        "2:12: unknown key 'master' in per_task; TensorFlow 2 calls it 'chief'; allowed are chief, worker, ps, "
        "evaluator",
    ),
    "a command for tasks that there are not": (
        HOST + "per_task:\n  worker: ./w\n  ps: [./ps]\n",
        "4:7: a command for tasks of type ps, and no host runs one; there are tasks of type worker",
    ),
    "a command of no words for a type": (
        HOST + "per_task: {worker: []}\n",
        "2:20: worker is an empty list; allowed is a list of words such as [python, train.py], or one text",
    ),
    "a command that is a mapping for a type": (
        HOST + "per_task: {worker: {python: train.py}}\n",
        "2:20: worker is a mapping; allowed is a list of words such as [python, train.py], or one text",
    ),
    "commands for types that are a list": (
        HOST + "per_task: [./a]\n",
        "2:11: per_task is a list; allowed is a mapping such as {ps: [python, ps.py]}",
    ),
    "a placeholder that YAML reads as a mapping": (
        HOST + "defaults:\n  env:\n    PMI_RANK: {rank}\n",
        "4:15: the value of 'PMI_RANK' is a mapping; allowed is a text, a number, true or false; quote a text in "
        'braces: "{rank}"',
    ),
    "a placeholder in a list without quotes": (
        HOST + "command: [python, fit.py, --task_index={index}]\n",
        "2:40: this is not YAML: did not find expected ',' or ']' while parsing a flow sequence that begins in line 2; "
        'quote a text with braces in a list or mapping: "--task_index={index}"',
    ),
    "workers and tasks": (
        "hosts: [{host: a, workers: 1, tasks: {worker: 1}}]",
        "1:38: tasks and workers together; `workers: N` means `tasks: {worker: N}`: keep one",
    ),
    "nobody trains": (
        "hosts: [{host: a, tasks: {ps: 1}}]",
        "1:26: the cluster has no chief and no worker; it needs at least one of them",
    ),
    "duplicate host": (
        "hosts:\n  - host: a\n  - host: a\n",
        "3:11: host a a second time, first at line 2, column 11; list each host once, with all of its tasks",
    ),
    "gpu listed twice": (
        "hosts: [{host: a, gpus: [0, 1, 0]}]",
        "1:32: GPU 0 is listed twice, first at line 1, column 26; remove one of them",
    ),
    "gpus that cannot be shared out": (
        "hosts: [{host: a, workers: 2, gpus: [0, 1, 2]}]",
        (
            "1:37: gpus has 3 for the 2 tasks of the host that compute; each needs the same number: change `gpus` or "
            "the number of tasks"
        ),
    ),
    "gpus and the variable it sets": (
        "hosts: [{host: a, gpus: [0]}]\ndefaults: {env: {CUDA_VISIBLE_DEVICES: 0}}\n",
        "1:25: gpus and CUDA_VISIBLE_DEVICES in `env`; gpus sets that variable: keep one",
    ),
    "bad duration": (
        HOST + "timeouts: {grace: 10 seconds}\n",
        (
            "2:19: grace is the text '10 seconds'; allowed is a duration of at most 7 days, such as 500ms, 10s, 10m, "
            "1h, or a number of seconds"
        ),
    ),
    "a duration of nothing": (
        HOST + "timeouts: {lease: 0s}\n",
        (
            "2:19: lease is the text '0s'; allowed is a duration above 0 and of at most 7 days, such as 500ms, 10s, "
            "10m, 1h, or a number of seconds"
        ),
    ),
    "port out of range": (
        "hosts: [{host: a, ports: 60000-70000}]",
        (
            "1:26: ports is the text '60000-70000'; allowed is a range from low to high such as 20000-20999, one port, "
            "or a list of ports, each 1 to 65535"
        ),
    ),
    "port out of range in a list": (
        "hosts: [{host: a, ports: [65536]}]",
        "1:27: port is the number 65536; allowed is a whole number in plain digits, 1 to 65535",
    ),
    "port listed twice": (
        "hosts: [{host: a, ports: [20000, 20001, 20000]}]",
        "1:41: port 20000 is listed twice, first at line 1, column 27; remove one of them",
    ),
    "ports with gaps": (
        "hosts: [{host: a, ports: [1, 3]}]",
        "1:26: ports has gaps; list ports that follow each other, such as [20000, 20001]",
    ),
    "fewer ports than tasks": (
        "hosts: [{host: a, workers: 3}]\ndefaults: {ports: 20000-20001}\n",
        "2:19: ports has 2 for the 3 tasks of the host; each task needs one",
    ),
    "address with a port": (
        "hosts: [{host: a, address: '10.0.0.1:2222'}]",
        (
            "1:28: address is the text '10.0.0.1:2222'; allowed is a host name or an IP address that others can dial, "
            "without a port"
        ),
    ),
    "address that nobody can dial": (
        "hosts: [{host: a, address: 0.0.0.0}]",
        (
            "1:28: address is the text '0.0.0.0'; allowed is a host name or an IP address that others can dial, "
            "without a port"
        ),
    ),
    "version number for a text": (
        "hosts: [{host: a, python: 3.10}]",
        (
            "1:27: python is the number 3.10; allowed is the path or name of a Python interpreter; if it is meant as a "
            'text, quote it: "3.10"'
        ),
    ),
    "date for a text": (
        "name: 2026-11-20\n" + HOST,
        (
            "1:7: name is the date 2026-11-20; allowed is a text without '/' that can name a directory; if it is meant "
            'as a text, quote it: "2026-11-20"'
        ),
    ),
    "yes for a text": (
        "hosts: [{host: yes}]",
        (
            "1:16: host is the truth value yes; allowed is localhost or an ssh destination: an alias, a host or "
            'user@host; if it is meant as a text, quote it: "yes"'
        ),
    ),
    "a lone tilde": (
        "hosts: [{host: a, workdir: ~}]",
        (
            "1:28: workdir is ~, which is YAML's word for nothing; allowed is the path of a directory; if it is meant "
            'as a text, quote it: "~"'
        ),
    ),
    "yes for true": (
        "hosts: [{host: a, hold_ports: yes}]",
        "1:31: hold_ports is the truth value yes; allowed is true or false",
    ),
    "another word for an open network": (
        HOST + "network: open\n",
        "2:10: network is the text 'open'; allowed is a mapping such as {open: true}",
    ),
    "a number for an open network": (
        HOST + "network: {open: 1}\n",
        "2:17: open is the number 1; allowed is true or false",
    ),
    "empty value": (
        HOST + "command:\n",
        "2:9: command is empty; allowed is a list of words such as [python, train.py], or one text",
    ),
    "quote that a shell would miss": (
        HOST + "command: it's\n",
        "2:10: command cannot be split into words (No closing quotation); close the quote, or write a list",
    ),
    "variable that the launcher sets": (
        "hosts: [{host: a, env: {TF_CONFIG: x}}]",
        "1:25: TF_CONFIG cannot be set here; the launcher makes it for each task",
    ),
    "variable without a value": (
        "hosts: [{host: a, env: {A: }}]",
        "1:28: the value of 'A' is empty; allowed is a text, a number, true or false; write \"\" for an empty text",
    ),
    "variable without a space, whose value is not repeated": (
        "hosts: [{host: a, env: {API_TOKEN:swordfish}}]",
        "1:44: the value of a variable is empty; allowed is a text, a number, true or false; "
        'write "" for an empty text',
    ),
    "variables as one text, which is not repeated": (
        "hosts: [{host: a, env: swordfish}]",
        "1:24: env is one value; allowed is a mapping such as {NCCL_DEBUG: WARN}",
    ),
    "variable with an equals sign, which is not repeated": (
        "hosts: [{host: a, env: {A=swordfish: x}}]",
        "1:25: a variable's name may not be empty nor hold '='; write NAME: value",
    ),
    "host with a password": (
        "hosts: [{host: 'ada:swordfish@gpu1'}]",
        "1:16: host is the text 'ada:<redacted>@gpu1'; allowed is localhost or an ssh destination: an alias, a host or "
        "user@host",
    ),
    "path that leaves the output directory": (
        HOST + "collect: [../secrets]\n",
        "2:11: path is the text '../secrets'; allowed is a path below the chief's output directory",
    ),
    "project that is a number": (
        HOST + "sync: 1\n",
        (
            "2:7: sync is the number 1; allowed is the path of the project's directory, or a mapping such as "
            '{from: ., exclude: ["*.ckpt"]}'
        ),
    ),
    "project without a directory": (
        HOST + "sync: {exclude: []}\n",
        """2:7: sync has no key 'from'; write for example {from: ., exclude: ["*.ckpt"]}""",
    ),
    "project that is not there": (
        HOST + "sync: {from: /nowhere/here}\n",
        ("2:14: there is no directory '/nowhere/here'; a relative path begins at the directory of the cluster file"),
    ),
    "project that is everything": (
        HOST + "sync: /\n",
        "2:7: / is the root directory; name the directory of one project",
    ),
    "project that is all of the user's": (
        HOST + "sync: '~'\n",
        f"2:7: {Path.home()} is your home directory; name the directory of one project",
    ),
    "pattern that matches nothing": (
        HOST + "sync: {from: ., exclude: ['# no']}\n",
        "2:27: pattern is the text '# no'; allowed is a pattern as in .gitignore",
    ),
    "text that begins with an asterisk": (
        HOST + "sync: {from: ., exclude: [*.ckpt]}\n",
        (
            "2:27: this is not YAML: `*` in front makes an alias of what follows, which cannot be the name of one; if "
            "it is a text, quote it"
        ),
    ),
    "text that begins with an exclamation mark": (
        HOST + "sync: {from: ., exclude: [!keep.ckpt]}\n",
        (
            "2:27: this is not YAML: `!` in front makes a tag of what follows, and tags are not allowed; if it is a "
            "text, quote it"
        ),
    ),
    "text that becomes a tag": (
        HOST + "sync:\n  from: .\n  exclude:\n    - !keep a\n",
        "5:7: a tag; tags are not allowed: remove it; if it is a text, quote it",
    ),
    "NUL": (
        'hosts: [{host: a, env: {A: "x\\0"}}]',
        "1:28: a text with a NUL character or half a character; no program can be given it: remove it",
    ),
    "empty file": ("", "1:1: the file is empty; write at least hosts: [{host: localhost, workers: 2}]"),
    "only a comment": ("# hosts\n", "1:1: the file is empty; write at least hosts: [{host: localhost, workers: 2}]"),
    "not a mapping": (
        "- host: a\n",
        "1:1: the cluster file is a list; allowed is a mapping such as {hosts: [{host: localhost, workers: 2}]}",
    ),
    "tab": (
        "hosts:\n  - host: a\n\tworkers: 1\n",
        "3:1: a tab in the indentation; YAML allows only spaces there: replace it by spaces",
    ),
    "bracket left open": (
        "hosts: [{host: a}\nname: x\n",
        (
            "2:1: this is not YAML: did not find expected ',' or ']' while parsing a flow sequence that begins in line "
            "1; look for a wrong indentation or an open quote or bracket here or just above"
        ),
    ),
    "second document": (
        HOST + "---\n" + HOST,
        "2:1: a second document starts here; a cluster file is one document: remove `---`",
    ),
    "merge key": (
        "hosts: [{host: a, <<: {workers: 1}}]",
        "1:19: the merge key '<<' is not allowed; use `defaults:`, or a plain alias as a value",
    ),
    "tag that would run code": (
        "hosts: [{host: a}]\nname: !!python/name:os.system x\n",
        "2:7: the tag '!!python/name:os.system'; tags are not allowed: remove it",
    ),
    "key that is a list": (
        HOST + "? [a]\n: b\n",
        "2:3: a list or a mapping as a key; a key is a word: are there braces or brackets too many?",
    ),
    "unknown alias": (
        "name: *n\n" + HOST,
        "1:7: this alias has no anchor that ends before it; if it is a text, quote it",
    ),
    "alias within itself": (
        "hosts: &h [*h]",
        "1:12: this alias has no anchor that ends before it; if it is a text, quote it",
    ),
    "not UTF-8": (
        b"hosts:\n  - host: \xc3\xa9\xff\n",
        "2:12: byte 0xff (number 20 of the text) is not UTF-8; save the file as UTF-8",
    ),
    "UTF-16": (HOST.encode("utf-16"), "1:1: the file is UTF-16; save it as UTF-8"),
    "control character": (
        "hosts: [{host: a\x1b}]",
        "1:17: control character '\\x1b'; YAML allows none: remove it",
    ),
    "deep nesting": ("[" * 500_000, "1:22: nested more than 20 deep; a cluster file needs 4 levels"),
    "more values than anybody writes": (
        f"[{'a,' * 400_000}]",
        "1:200002: more than 100,000 values (each alias counted in full); a cluster file has fewer",
    ),
}


@pytest.mark.parametrize(("text", "line"), ONE_MISTAKE.values(), ids=ONE_MISTAKE)
def test_a_mistake_is_named_with_its_place_and_what_is_allowed(
    mistakes: Mistakes, text: str | bytes, line: str
) -> None:
    assert mistakes(text) == [f"c.yaml:{line}"]


def test_all_mistakes_are_told_at_once_in_the_order_of_the_file(mistakes: Mistakes) -> None:
    text = (
        "nam: x\nhosts:\n  - host: a\n    workers: none\n    workers: 1\n  - host: a\n    gpus: [0, 0]\n"
        "    env: {TF_CONFIG: ''}\nrestart: {max_restarts: -1, backof: 1s}\n"
    )

    places = [line.split(": ")[0] for line in mistakes(text)]

    assert places == [f"c.yaml:{place}" for place in ("1:1", "4:14", "5:5", "6:11", "7:15", "8:11", "9:25", "9:29")]


def test_every_tab_is_told(mistakes: Mistakes) -> None:
    lines = mistakes("hosts:\n\t- host: a\n\t  workers: 1\n")

    assert [line.split(": ")[0] for line in lines] == ["c.yaml:2:1", "c.yaml:3:1"]


def test_a_mistake_in_what_an_alias_repeats_is_told_once(mistakes: Mistakes) -> None:
    text = "hosts:\n  - {host: a, env: &e {A: [1]}}\n" + "".join(f"  - {{host: b{i}, env: *e}}\n" for i in range(9))

    assert len(mistakes(text)) == 1


def test_a_wrong_host_hides_no_wrong_key_elsewhere(mistakes: Mistakes) -> None:
    lines = mistakes("hosts: [gpu-a]\nrestrat: 1\n")

    assert [line.split(": ")[0] for line in lines] == ["c.yaml:1:9", "c.yaml:2:1"]


@pytest.mark.parametrize("line", ["a{}:", "a:", "\t- a"], ids=["unknown keys", "duplicate keys", "tabs"])
def test_after_a_hundred_mistakes_the_reading_ends(mistakes: Mistakes, line: str) -> None:
    lines = mistakes("hosts:\n" + "\n".join(line.format(i) for i in range(40_000)))

    assert len(lines) == 101
    assert lines[-1].endswith("reading stopped after 100 mistakes; there may be more")


def test_a_bomb_of_aliases_is_refused(mistakes: Mistakes) -> None:
    tens = {name: ", ".join([f"*{chr(ord(name) - 1)}"] * 10) for name in "bcdefghi"}
    levels = "".join(f"{name}: &{name} [{ten}]\n" for name, ten in tens.items())

    assert mistakes("a: &a [x, x, x, x, x, x, x, x, x, x]\n" + levels) == [
        "c.yaml:5:4: more than 100,000 values (each alias counted in full); a cluster file has fewer"
    ]


def test_a_value_of_env_is_in_no_message(mistakes: Mistakes) -> None:
    assert "hunter2" not in "".join(mistakes("hosts: [{host: a, env: {A: [hunter2], TF_CONFIG: hunter2}}]"))


def test_a_large_file_is_refused_with_its_size(mistakes: Mistakes) -> None:
    assert mistakes(b"#" * 10_000_000) == [
        "c.yaml: the file has 10,000,000 bytes; a cluster file has at most 1,048,576 bytes: is it the right file?"
    ]


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    assert answer(tmp_path / "c.yaml") == ["c.yaml: there is no such file; check the path given to --cluster"]


def test_a_path_through_a_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    assert answer(tmp_path / "file" / "c.yaml") == ["c.yaml: the file cannot be read: Not a directory"]


def test_a_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").mkdir()

    assert answer(tmp_path / "c.yaml") == ["c.yaml: this is a directory; name a YAML file in it"]


@contextmanager
def without_privileges() -> Iterator[None]:
    """Root may read every file; for a while be nobody instead."""
    before = os.geteuid()
    if before == 0:
        os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(before)


def test_an_unreadable_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").touch(mode=0)

    with without_privileges():
        assert answer(tmp_path / "c.yaml") == ["c.yaml: the file cannot be read: Permission denied"]


def test_a_pipe_is_refused_without_waiting_for_its_writer(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "c.yaml")

    assert answer(tmp_path / "c.yaml") == [
        "c.yaml: this is a pipe, a socket or a device; a cluster file must be a regular file"
    ]


def test_a_device_is_refused() -> None:
    assert answer(Path("/dev/zero")) == [
        "zero: this is a pipe, a socket or a device; a cluster file must be a regular file"
    ]


def test_a_path_with_a_newline_leaves_one_line_a_mistake(tmp_path: Path) -> None:
    (found,) = answer(tmp_path / "a\nb.yaml")

    assert "a\\nb.yaml" in found
