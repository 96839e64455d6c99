"""A run on real hosts goes on as it was begun, and a typo is told before anything is started on them."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path

from rig import Host
from support.launching import Launch

Start = Callable[..., Launch]
Cluster = Callable[..., tuple[str, str]]
STOPPED_ONCE = """
import os, time
print(os.environ["LAUNCH_ATTEMPT"], os.environ["NAME"], os.path.basename(os.environ["RUN"]), flush=True)
if os.environ["LAUNCH_ATTEMPT"] == "0":
    time.sleep(1000)
"""


def test_a_stopped_run_goes_on_with_its_own_copy_of_the_cluster_file(
    launch: Start, cluster: Cluster, hosts: tuple[Host, ...], tmp_path: Path
) -> None:
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "train.py").write_text(STOPPED_ONCE)
    env = {"NAME": "{type} {index} of {workers} on {host}", "RUN": "{run_dir}"}
    about = {"sync": "project", "defaults": {"env": env}}

    mistyped = launch(*cluster(*hosts[:2], **about, command=["python", "trian.py"]))
    assert mistyped.wait() == 2
    assert "the project that `sync` sends; did you mean train.py?" in mistyped.stderr
    assert not mistyped.runs.exists()

    options = cluster(*hosts[:2], **about, command=["python", "train.py"])
    first = launch(*options)
    first.await_log(b"\n", "worker-0", "worker-1")
    first.signal(signal.SIGINT)
    assert first.wait() == 130
    assert first.stderr.splitlines()[-1].startswith("[launch] go on with: ")
    Path(options[1]).unlink()
    (tmp_path / "elsewhere").mkdir()

    resumed = launch("--resume", first.run_directory, cwd=tmp_path / "elsewhere")

    assert resumed.succeeded()
    for index, host in enumerate(hosts[:2]):
        before, after = (first.log(f"worker-{index}", attempt=n).decode().splitlines()[0] for n in (0, 1))
        assert before.split(maxsplit=1)[1] == after.split(maxsplit=1)[1]
        assert after.startswith(f"1 worker {index} of 2 on {host.name} {first.run_directory.name}-")

    elsewhere = launch("--resume", first.run_directory, "--workers", "1", "--", "true")
    assert elsewhere.succeeded()
    assert f"other hosts than before: localhost (before: {hosts[0].name}, {hosts[1].name})\n" in elsewhere.stderr
