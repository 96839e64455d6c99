"""Another user of a host, before a run and between its attempts: nothing of hers is run, nor written through."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path, PurePosixPath

from rig import Host
from support.launching import Launch

Start = Callable[..., Launch]
Cluster = Callable[..., tuple[str, str]]
RUNS = "/tmp/runs"
"""Where hosts have their runs: a name that everybody may take."""
IMPORTING = ("python3", "-c", "import json; print('imported')")
PLANTED = 'open("/tmp/has-run", "w").close(); raise SystemExit(0)\n'


def at(host: str | Host, place: str = RUNS) -> dict[str, object]:
    """A host of a cluster file."""
    return {"host": str(host), "workers": 1, "run_dir": place}


def remote_run(run: Launch, place: str = RUNS) -> PurePosixPath:
    """The run's directory on its hosts."""
    return PurePosixPath(place) / run.run_state["run_id"]


def test_a_run_directory_in_a_shared_place_is_private_and_its_name_not_known_before(
    launch: Start, cluster: Cluster, hosts: tuple[Host, ...]
) -> None:
    first, second = (launch(*cluster(at(hosts[0])), "--", *IMPORTING) for _ in range(2))

    assert first.succeeded()
    assert second.succeeded()
    names = [remote_run(each).name.removeprefix(f"{each.run_directory.name}-") for each in (first, second)]
    assert all(re.fullmatch("[0-9a-f]{16}", digits) for digits in names)
    assert names[0] != names[1]
    ours = "-name __pycache__ -prune -o"  # a worker's Python makes it, with the worker's umask
    found = hosts[0].run(f"find {RUNS} {ours} -printf '%y %m %u %p\\n'").stdout.splitlines()
    assert {line.rpartition(" ")[0] for line in found} == {"d 700 tb", "f 600 tb"}
    assert hosts[0].run(["ls", RUNS], "eve", check=False).returncode != 0


def test_a_directory_that_another_user_has_made_is_refused(
    launch: Start, cluster: Cluster, hosts: tuple[Host, ...]
) -> None:
    hosts[0].run(f"mkdir {RUNS} && chmod 1777 {RUNS}", "eve")
    hosts[1].run("mkdir /tmp/mine", "tb")
    hosts[1].run(f"ln -s /tmp/mine {RUNS}", "eve")
    hosts[2].run(f"mkdir {RUNS}", "eve")
    file = cluster(at(hosts[0]), at(hosts[1]), at(f"root@{hosts[2]}"))

    started = launch(*file, "--", *IMPORTING)

    assert started.wait() == 3
    why = f"{RUNS}: it belongs to eve, who can put something else in the place of what lies in it"
    for name in (hosts[0], hosts[1], f"root@{hosts[2]}"):
        assert f"{name}: {why}" in started.stderr
    assert started.stderr.count("name another `run_dir`") == 3
    assert [host.run(f"find {RUNS}/ /tmp/mine -mindepth 1", "root", check=False).stdout for host in hosts] == [""] * 3


def test_a_directory_that_another_user_could_replace_is_refused(
    launch: Start, cluster: Cluster, hosts: tuple[Host, ...]
) -> None:
    hosts[0].run(f"mkdir {RUNS} && chmod 777 {RUNS}")
    hosts[1].run(f"mkdir {RUNS} && chgrp lab {RUNS} && chmod 2775 {RUNS}")
    hosts[2].run(f"mkdir {RUNS} && chmod 775 {RUNS}")  # tb's own group, as with a umask of 002
    file = cluster(*map(at, hosts))

    refused = launch(*file, "--", *IMPORTING)

    assert refused.wait() == 3
    assert f"{hosts[0]}: {RUNS}: any user of this host can put something else in the place" in refused.stderr
    assert f"`chmod +t {RUNS}` closes it" in refused.stderr
    assert f"{hosts[1]}: {RUNS}: every member of the group lab can put something else in the place" in refused.stderr
    assert f"{hosts[2]}: " not in refused.stderr

    hosts[0].run(f"chmod +t {RUNS}")
    hosts[1].run(f"chmod +t {RUNS}")
    assert launch(*file, "--", *IMPORTING).succeeded()


def test_a_project_is_not_sent_to_a_directory_of_another_user(
    launch: Start, cluster: Cluster, hosts: tuple[Host, ...], tmp_path: Path
) -> None:
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "train.py").write_text("print('mine')")
    hosts[0].run("mkdir /tmp/project && chmod 1777 /tmp/project", "eve")
    hosts[1].run("mkdir /tmp/work && chmod 777 /tmp/work")
    places = [{"workdir": place} for place in ("/tmp/project", "/tmp/work/project")]
    each = [{"host": host.name, "workers": 1, **place} for host, place in zip(hosts, places, strict=False)]

    started = launch(*cluster(*each, sync="project", command=["python", "train.py"]))

    assert started.wait() == 3
    assert f"{hosts[0]}: /tmp/project: it belongs to eve, who can put something else" in started.stderr
    assert f"{hosts[1]}: /tmp/work: any user of this host can put something else" in started.stderr
    assert "name another `workdir`\n" in started.stderr
    assert hosts[0].run(["ls", "-A", "/tmp/project"]).stdout == ""


def test_a_disk_whose_owner_has_no_account_will_do(launch: Start, cluster: Cluster, hosts: tuple[Host, ...]) -> None:
    root = f"root@{hosts[0]}"
    hosts[0].run("mkdir -p /root/volume /tmp/volume && chown 54321 /root/volume /tmp/volume", "root")

    assert launch(*cluster(at(root, "/root/volume/runs")), "--", *IMPORTING).succeeded()

    made_by_anybody = launch(*cluster(at(root, "/tmp/volume/runs")), "--", *IMPORTING)
    assert made_by_anybody.wait() == 3
    assert "/tmp/volume: it belongs to user 54321" in made_by_anybody.stderr


def test_nothing_that_was_planted_in_a_run_directory_runs(
    launch: Start, cluster: Cluster, hosts: tuple[Host, ...]
) -> None:
    first = launch(*cluster(at(hosts[0])), "--", *IMPORTING)
    assert first.succeeded()
    run = remote_run(first)
    brought = hosts[0].run(f"cd {run} && echo support-*").stdout.strip()
    hosts[0].run(f"chmod 755 {RUNS} && chmod 777 {run} {run}/{brought}")
    for name in ("json.py", "sitecustomize.py"):
        hosts[0].run(f"mkdir -p {run}/support && cat >{run}/support/{name}", "eve", PLANTED)
        hosts[0].run(f"rm -f {run}/{brought}/{name} && cat >{run}/{brought}/{name}", "eve", PLANTED)

    open_to_others = launch("--resume", first.run_directory)

    assert open_to_others.wait() == 3
    assert f"{hosts[0]}: {run}: others may write in it" in open_to_others.stderr
    assert f"see what lies in it, then `chmod 700 {run}`" in open_to_others.stderr

    hosts[0].run(f"chmod 700 {run}")
    resumed = launch("--resume", first.run_directory)

    assert resumed.succeeded()
    assert first.log("worker-0", attempt=1) == b"imported\n"
    assert hosts[0].run(["ls", "/tmp/has-run"], check=False).returncode != 0
    assert hosts[0].run(f"cd {run} && ls {brought}/json.py", check=False).returncode != 0


def test_a_run_directory_that_its_program_has_opened_to_others_gets_no_further_attempt(
    launch: Start, cluster: Cluster, hosts: tuple[Host, ...]
) -> None:
    opens = 'chmod 777 "$LAUNCH_OUTPUT_DIR/.."; echo "attempt $LAUNCH_ATTEMPT"; exit 3'
    started = launch("--max-restarts", "1", *cluster(at(hosts[0])), "--", "sh", "-c", opens)

    assert started.wait() == 1
    run = remote_run(started)
    assert f"{run}: others may write in it, and workers would run that (owner tb, mode 0777)" in started.stderr
    assert f"see what lies in it, then `chmod 700 {run}`" in started.stderr
    assert "attempt 0" in started.stdout
    assert "attempt 1" not in started.stdout


def test_a_log_is_not_written_through_a_link_that_was_planted(
    launch: Start, cluster: Cluster, hosts: tuple[Host, ...]
) -> None:
    first = launch(*cluster(at(hosts[0])), "--", *IMPORTING)
    assert first.succeeded()
    run = remote_run(first)
    hosts[0].run(f"echo mine >victim; mkdir -m 700 {run}/attempt-1; ln -s ~/victim {run}/attempt-1/worker-0.log")

    resumed = launch("--resume", first.run_directory)

    assert resumed.wait() == 1
    assert f"cannot create the log file {run}/attempt-1/worker-0.log: this is no file of ours" in resumed.stderr
    assert hosts[0].read("/home/tb/victim") == b"mine\n"
