"""Records how the members of a gang end: `python record.py OUT [SCENARIO...]`. Needs TensorFlow. See README.md."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
REPOSITORY = HERE.parents[2]
LIMIT = 15 << 10
KERAS_FIX = {
    "PYTHONPATH": str(REPOSITORY / "launcher" / "on_host" / "bootstrap"),
    "LAUNCH_KERAS_FIX": str(REPOSITORY / "training" / "keras_fix"),
}


@dataclass(frozen=True)
class Scenario:
    """A gang, what befalls it, and how soon after the first end the rest are stopped (None: never)."""

    fault: str
    culprit: int = 1
    workers: int = 2
    settle: float | None = None
    argv: tuple[str, ...] | None = None
    """The culprit's own command line; None: train.py like the others."""
    port_taken: bool = False
    program: str = "train.py"
    keras_fix: bool = False
    """As `launch` brings it into a worker."""
    roles: tuple[str, ...] = ()
    """The tasks, where they are not just `workers` workers."""
    timeout: float = 90

    @property
    def tasks(self) -> tuple[str, ...]:
        return self.roles or tuple(f"worker-{index}" for index in range(self.workers))


FAULTS = (
    *("sigkill", "sigstop", "sigint", "segfault", "faulthandler", "abort"),
    *(
        "value_error",
        "multiline",
        "chained_from",
        "chained_during",
        "exception_group",
        "own_unavailable",
        "nan",
        "thread",
    ),
    *("generator", "py_function", "distributed_dataset", "graph_nan", "graph_py_function", "shape_mismatch"),
    *("memory_error", "tensor_memory", "sys_exit_3", "exit_message", "os_exit_7", "exit_0"),
    *("interleaved", "logged_then_exit_3", "logged_then_sigkill", "peer_logged"),
    *("cleanup_needs_peers", "wrapped_collateral", "started_again"),
)
"""Faults of train.py that end worker 1 of two, the other being left alone."""

FIT_FAULTS = (
    *("fit_callback", "fit_generator", "fit_py_function", "fit_numpy_function"),
    *("fit_all_layer_call", "fit_all_input_shape"),
)
"""Faults of fit.py; of those with `all` in their name every worker has the same."""

PARAMETER_SERVERS = ("chief-0", "worker-0", "ps-0")

SCENARIOS = {
    **{name: Scenario(name) for name in FAULTS},
    **{name: Scenario(name, program="fit.py", keras_fix=True) for name in FIT_FAULTS},
    "fit_py_function_whole": Scenario("fit_py_function", program="fit.py", keras_fix=True),
    "fit_stock": Scenario("none", program="fit.py"),
    "ps_sigkill": Scenario("ps_sigkill", 2, settle=10, program="parameter_servers.py", roles=PARAMETER_SERVERS),
    "ps_fit_keras_3": Scenario("ps_fit_keras_3", 0, settle=1, program="parameter_servers.py", roles=PARAMETER_SERVERS),
    "chief_value_error": Scenario("value_error", culprit=0),
    "chief_sigkill": Scenario("sigkill", culprit=0),
    "chief_sigstop": Scenario("sigstop", culprit=0),
    "three_value_error": Scenario("value_error", workers=3),
    "three_sigkill": Scenario("sigkill", workers=3),
    "value_error_stopped": Scenario("value_error", settle=0.5),
    "three_value_error_stopped": Scenario("value_error", workers=3, settle=0.0),
    "sigstop_stopped": Scenario("sigstop", settle=0.5),
    "missing_module": Scenario("missing_module", settle=0.5),
    "early_value_error": Scenario("early_value_error", settle=0.5),
    "touched_early": Scenario("touched_early", settle=0.5),
    "port_in_use": Scenario("none", settle=0.5, port_taken=True),
    "syntax_error": Scenario("none", settle=0.5, argv=("python", "broken_syntax.py")),
    "no_such_script": Scenario("none", settle=0.5, argv=("python", "trian.py")),
    "not_executable": Scenario("none", settle=0.5, argv=("sh", "-c", "./train.py --epochs 3")),
    "no_such_module": Scenario("none", settle=0.5, argv=("python", "-m", "trainning")),
    "bad_usage": Scenario("none", settle=0.5, argv=("python", "train.py", "--epoch", "3")),
    "shell_not_found": Scenario("none", settle=0.5, argv=("sh", "-c", "echo starting; ./trainer --data /data")),
    "shell_exit_9": Scenario(
        "none", settle=0.5, argv=("sh", "-c", "echo step 1; echo disk quota exceeded >&2; exit 9")
    ),
}


def free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [int(each.getsockname()[1]) for each in sockets]


def start(project: Path, scenario: Scenario, ports: list[int], index: int) -> subprocess.Popen[bytes]:
    cluster: dict[str, list[str]] = {}
    for task, port in zip(scenario.tasks, ports, strict=True):
        cluster.setdefault(task.partition("-")[0], []).append(f"127.0.0.1:{port}")
    kind, _, number = scenario.tasks[index].partition("-")
    config = {"cluster": cluster, "task": {"type": kind, "index": int(number)}}
    argv = ("python", scenario.program, "--fault", scenario.fault, "--culprit", str(scenario.culprit))
    if scenario.argv and index == scenario.culprit:
        argv = scenario.argv
    env = os.environ | {"TF_CONFIG": json.dumps(config), "PYTHONUNBUFFERED": "1", "OMP_NUM_THREADS": "1"}
    env |= KERAS_FIX if scenario.keras_fix else {}
    env |= {"TF_GRPC_REUSE_PORT": "true"} if scenario.fault == "started_again" else {}  # as `launch` sets it
    env["PATH"] = f"{Path(sys.executable).parent}:{env['PATH']}"
    with (project / f"{scenario.tasks[index]}.log").open("ab") as log:
        return subprocess.Popen(argv, cwd=project, env=env, stdout=log, stderr=log, stdin=subprocess.DEVNULL)


def record(name: str, scenario: Scenario, out: Path) -> None:
    with ExitStack() as stack:
        project = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        shutil.copy(HERE / scenario.program, project)
        (project / "broken_syntax.py").write_text("import os\n\ndef train(:\n    pass\n")
        ports = free_ports(len(scenario.tasks))
        if scenario.port_taken:
            taken = stack.enter_context(socket.socket())
            taken.bind(("0.0.0.0", ports[scenario.culprit]))
            taken.listen()
        gang = {index: start(project, scenario, ports, index) for index in range(len(ports))}
        try:
            exits = watch(scenario, gang)
        finally:
            for process in gang.values():
                process.kill()
                process.wait()
        save(name, project, exits, out)


def watch(scenario: Scenario, gang: dict[int, subprocess.Popen[bytes]]) -> list[dict[str, object]]:
    exits: list[dict[str, object]] = []
    began = time.monotonic()
    first: float | None = None
    signalled: set[int] = set()
    running = dict(gang)
    while running:
        now = time.monotonic()
        for index in [index for index, process in running.items() if process.poll() is not None]:
            code = running.pop(index).returncode
            first = first or now
            exits.append(
                {
                    "task": scenario.tasks[index],
                    "exit_code": code if code >= 0 else None,
                    "signal": -code if code < 0 else None,
                    "stopped": index in signalled,
                    "milliseconds_after_first": round((now - first) * 1000),
                }
            )
        if scenario.settle is not None and first and not signalled and now > first + scenario.settle:
            signalled = set(running)
            for process in running.values():
                process.send_signal(signal.SIGTERM)
        late = now > began + scenario.timeout or (signalled and first and now > first + (scenario.settle or 0) + 2)
        blocked = len(running) == 1 and scenario.culprit in running and scenario.fault == "sigstop"
        if late or blocked:
            signalled |= set(running)
            for process in running.values():
                process.kill()
        time.sleep(0.002)
    return exits


def save(name: str, project: Path, exits: list[dict[str, object]], out: Path) -> None:
    folder = out / name
    folder.mkdir(parents=True, exist_ok=True)
    for log in project.glob("*-*.log"):
        (folder / log.name).write_bytes(neutral(log.read_bytes(), project)[-LIMIT:])
    lines = ",\n".join("  " + json.dumps(each) for each in exits)
    (folder / "exits.json").write_text(f"[\n{lines}\n]\n")
    print(name, [tuple(each.values()) for each in exits], flush=True)


def neutral(text: bytes, project: Path) -> bytes:
    """`text` without the paths and the name of the machine it was recorded on."""
    for path, stand_in in (
        (project.resolve(), "/home/user/project"),
        (project, "/home/user/project"),
        (Path(sys.prefix), "/home/user/venv"),
        (HERE, "/home/user/project"),
        (REPOSITORY, "/home/user/tf-launch"),
        (Path(sys.base_prefix), "/usr"),
    ):
        text = text.replace(str(path).encode(), stand_in.encode())
    return re.sub(rb"\b" + re.escape(socket.gethostname().encode()) + rb"\b", b"host", text)


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # a shell's background job ignores it, and so would the workers
    out, *names = sys.argv[1:]
    for name in names or SCENARIOS:
        record(name, SCENARIOS[name], Path(out))


if __name__ == "__main__":
    main()
