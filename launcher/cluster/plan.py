"""What one attempt starts, as a value: computed without touching anything, printed by `--dry-run`. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, NamedTuple

from launcher.cluster import placeholders
from launcher.cluster.cluster import Cluster, Host
from launcher.cluster.defaults import DEFAULT_COMMAND
from launcher.cluster.redaction import redacted
from launcher.cluster.redaction.commands import redacted_words
from launcher.cluster.spec import ClusterSpec, Task, is_loopback, tf_config
from launcher.errors import UsageError

INTER_OP = "TF_NUM_INTEROP_THREADS"
THREAD_COUNTS = ("OMP_NUM_THREADS", "TF_NUM_INTRAOP_THREADS", INTER_OP)
PROXIES = ("grpc_proxy", "https_proxy", "http_proxy")
Admitted = Literal["loopback", "hosts", "all"]
"""Only this machine, by its loopback addresses; the hosts of the run, by those that they were seen at; everybody."""
NO_GPU = "-1"
PYTHONS = ("python", "python3")
OFF = ("0", "off", "no", "false")
"""As `LAUNCH_KERAS_FIX`: whoever sets this wants Keras as it is; as `LAUNCH_TF_CONFIG`: the program's own is to stay.
The bootstrap knows these words, too."""

RESERVED = {
    "TF_CONFIG": "the launcher makes it for each task",
    "TF_GRPC_REUSE_PORT": "the launcher sets it; see `hold_ports`",
    "LAUNCH_(?!(KERAS_FIX|TF_CONFIG)$).*": "the launcher sets what begins with LAUNCH_; "
    "only LAUNCH_KERAS_FIX and LAUNCH_TF_CONFIG may be set, to 0",
}
"""Names of variables that nobody else may set, each with the reason."""


class HostContext(NamedTuple):
    """What a plan must know of one host beside its cluster."""

    python: str
    """What `python` means where neither the file nor the command line names one."""
    workdir: str
    cpus: int
    output_dir: str
    run_dir: str
    """The directory above `attempt-N`."""
    environment: Mapping[str, str]
    """The environment that workers inherit."""
    bootstrap: str
    """The directory of our `sitecustomize.py`."""
    keras_fix: str | None
    """The directory of the package `keras_fix`."""
    program: str | None = None
    """The directory on `PYTHONPATH` in which the training program is; None: that of its Python."""
    training_python: str | None = None
    """What runs our own training program; None: `python`, as any other."""


class TaskPlan(NamedTuple):
    """One worker's process: where, what, with which environment."""

    task: Task
    host: str
    address: str
    """`address:port`, as the other workers dial it."""
    argv: tuple[str, ...]
    workdir: str
    env: Mapping[str, str]
    """What is added to the host's own environment."""
    log: str
    """The file on the host that takes the worker's stdout and stderr."""
    progress: str
    """The file on the host that the worker may report its steps in, one JSON object a line."""

    @property
    def port(self) -> int:
        """Where the worker listens."""
        return int(self.address.rpartition(":")[2])

    @property
    def interpreter(self) -> str | None:
        """The Python that runs the program, where the command begins with one."""
        return self.argv[0] if self.argv[0].rpartition("/")[2].startswith("python") else None

    def as_record(self) -> dict[str, Any]:
        """For JSON: secrets are redacted."""
        return {
            "task": self.task.slug,
            "host": self.host,
            "address": self.address,
            "argv": redacted_words(self.argv),
            "workdir": self.workdir,
            "env": redacted(self.env),
            "log": self.log,
        }


class AttemptPlan(NamedTuple):
    """One try of the whole gang."""

    attempt: int
    spec: ClusterSpec
    tasks: tuple[TaskPlan, ...]
    admitted: Admitted = "hosts"
    """Who may connect to the tasks' ports..."""
    unheld: tuple[str, ...] = ()
    """...but for those on these hosts, which are open to everybody."""

    def on(self, host: str) -> tuple[TaskPlan, ...]:
        """The part of one host."""
        return tuple(plan for plan in self.tasks if plan.host == host)

    def of(self, task: Task) -> TaskPlan:
        """The part of one task."""
        return next(plan for plan in self.tasks if plan.task == task)

    def as_record(self) -> dict[str, Any]:
        """For JSON: secrets are redacted."""
        return {
            "attempt": self.attempt,
            "admitted": self.admitted,
            "unheld": list(self.unheld),
            "tasks": [plan.as_record() for plan in self.tasks],
        }


def plan_attempt(
    cluster: Cluster, spec: ClusterSpec, contexts: Mapping[str, HostContext], run_id: str, attempt: int
) -> AttemptPlan:
    """What attempt number `attempt` starts: one process a task of `spec`.

    Raises:
        UsageError: the file asks for what cannot be shared out.
    """
    plans = [
        _plan_task(task, host, contexts[host.name], cluster.command_of(task), spec, run_id, attempt)
        for host in cluster.hosts
        for task in host.tasks
    ]
    order = {task: position for position, task in enumerate(spec.tasks)}
    tasks = tuple(sorted(plans, key=lambda plan: order[plan.task]))
    unheld = tuple(host.name for host in cluster.hosts if not host.hold_ports)
    return AttemptPlan(attempt, spec, tasks, _admitted(cluster, tasks), unheld)


def _admitted(cluster: Cluster, tasks: Iterable[TaskPlan]) -> Admitted:
    if cluster.open_network:
        return "all"
    return "loopback" if all(is_loopback(each.address.rpartition(":")[0]) for each in tasks) else "hosts"


def _plan_task(
    task: Task,
    host: Host,
    context: HostContext,
    command: Sequence[str],
    spec: ClusterSpec,
    run_id: str,
    attempt: int,
) -> TaskPlan:
    if placeholders.any_in((*command, *host.env.values())):
        values = placeholders.values_of(task, spec, host.name, context.run_dir)
        command = [placeholders.filled(word, values) for word in command]
        host = replace(host, env={key: placeholders.filled(value, values) for key, value in host.env.items()})
    attempt_dir = f"{context.run_dir}/attempt-{attempt}"
    progress = f"{attempt_dir}/{task.slug}.progress.jsonl"
    config = tf_config(spec, task)
    env = {
        **_thread_counts(host, context),
        **_inter_op_threads(host, context, spec),
        **_visible_gpus(task, host),
        **_no_proxy(spec, _given(host, context)),
        "PYTHONUNBUFFERED": "1",
        **host.env,
        "TF_CONFIG": config,
        "TF_GRPC_REUSE_PORT": "true",
        "LAUNCH_RUN_ID": run_id,
        "LAUNCH_ATTEMPT": str(attempt),
        "LAUNCH_OUTPUT_DIR": context.output_dir,
        "LAUNCH_PROGRESS": progress,
        **_bootstrapped(host, context, config, command),
    }
    return TaskPlan(
        task=task,
        host=host.name,
        address=spec.addresses[task],
        argv=worker_argv(command, python_of(command, host, context)),
        workdir=host.workdir or context.workdir,
        env=env,
        log=f"{attempt_dir}/{task.slug}.log",
        progress=progress,
    )


def worker_argv(command: Sequence[str], python: str) -> tuple[str, ...]:
    """`python ...` (or `python3 ...`) means the host's own Python, and `train.py ...` means `python train.py ...`."""
    if not means_python(command):
        return tuple(command)
    return (python, *(command[1:] if command[0] in PYTHONS else command))


def means_python(command: Sequence[str]) -> bool:
    """Whether the host's own Python runs the command."""
    return command[0] in PYTHONS or command[0].endswith(".py")


def python_of(command: Sequence[str], host: Host, context: HostContext) -> str:
    """What `python` in front of a command means on a host.

    Our own training program needs no more than our own Python; what is active there may lack TensorFlow.
    """
    ours = context.training_python if brings_training(command) else None
    return host.python or ours or context.python


def brings_training(*commands: Sequence[str]) -> bool:
    """Whether one of the commands runs the training program of this package, which a host need not have."""
    return any(
        _is_default(command) or (command[0] in PYTHONS and tuple(command[1:3]) == ("-m", "training"))
        for command in commands
    )


def _is_default(command: Sequence[str]) -> bool:
    return tuple(command) == DEFAULT_COMMAND


def is_off(switch: str | None) -> bool:
    """Whether a value of `LAUNCH_KERAS_FIX` or `LAUNCH_TF_CONFIG` switches off what it stands for."""
    return (switch or "").lower() in OFF


def _thread_counts(host: Host, context: HostContext) -> dict[str, str]:
    """Several workers on one host would each start a thread for every core, unless the user has set a number."""
    if len(host.tasks) == 1 or any(name in _given(host, context) for name in THREAD_COUNTS):
        return {}
    return dict.fromkeys(THREAD_COUNTS, str(_share(host, context)))


def _inter_op_threads(host: Host, context: HostContext, spec: ClusterSpec) -> dict[str, str]:
    """As many as a program with parameter servers cannot do without, also on a host with few cores or one task."""
    least = _least_inter_op_threads(spec)
    if not least or INTER_OP in _given(host, context):
        return {}
    return {INTER_OP: str(max(_share(host, context), least))}


def _least_inter_op_threads(spec: ClusterSpec) -> int:
    """0: no matter. With parameter servers, each task may wait for all others at once, a thread for each.

    With fewer the program hangs for ever (https://www.tensorflow.org/tutorials/distribute/parameter_server_training,
    "In-process cluster": at least one more than there are workers).
    """
    return len(spec.tasks) + 1 if any(task.type == "ps" for task in spec.tasks) else 0


def thread_warnings(cluster: Cluster, spec: ClusterSpec, contexts: Mapping[str, HostContext]) -> list[str]:
    """A line for each host whose own number of threads makes a program with parameter servers hang."""
    least = _least_inter_op_threads(spec)
    set_to = {host.name: _given(host, contexts[host.name]).get(INTER_OP, "") for host in cluster.hosts}
    return [
        f"{host}: {INTER_OP}={value} is set; with parameter servers this cluster needs {least} or more, "
        "and hangs with fewer: raise it, or leave it out"
        for host, value in set_to.items()
        if value.isdecimal() and (int(value) or contexts[host].cpus) < least  # 0 means a thread for each core
    ]


def _given(host: Host, context: HostContext) -> Mapping[str, str]:
    """What the user has set in the environment of a host's tasks."""
    return {**context.environment, **host.env}


def _share(host: Host, context: HostContext) -> int:
    """Cores for each task of a host."""
    return max(1, context.cpus // len(host.tasks))


def _visible_gpus(task: Task, host: Host) -> dict[str, str]:
    """An equal, contiguous share of the host's GPUs for each task that computes; none for a parameter server."""
    if host.gpus is None:
        return {}
    computing = [each for each in host.tasks if each.type != "ps"]
    if not host.gpus or task not in computing:
        return {"CUDA_VISIBLE_DEVICES": NO_GPU}
    share, left_over = divmod(len(host.gpus), len(computing))
    if left_over:
        raise UsageError(
            f"host {host.name}: gpus {list(host.gpus)} cannot be shared out equally among {len(computing)} workers. "
            f"MultiWorkerMirroredStrategy needs the same number on each: change `gpus` or the number of workers."
        )
    start = computing.index(task) * share
    return {"CUDA_VISIBLE_DEVICES": ",".join(map(str, host.gpus[start : start + share]))}


def _no_proxy(spec: ClusterSpec, environment: Mapping[str, str]) -> dict[str, str]:
    """Keep gRPC between the workers off a proxy; all other traffic goes on using it.

    gRPC reads `no_grpc_proxy`, and `no_proxy` only where that is not set (grpc `doc/environment_variables.md`).
    """
    if not any(environment.get(name) for name in PROXIES):
        return {}
    spared = environment.get("no_grpc_proxy") or environment.get("no_proxy") or ""
    hosts = dict.fromkeys(address.rpartition(":")[0].strip("[]") for address in spec.addresses.values())
    return {"no_grpc_proxy": ",".join([*filter(None, spared.split(",")), *hosts])}


def _bootstrapped(host: Host, context: HostContext, config: str, command: Sequence[str]) -> dict[str, str]:
    """What the bootstrap works by, and the path that brings it and the training program into a worker.

    The bootstrap comes before the user's own modules. The training program comes before them where it is the default
    command, and after them where `python -m training` was asked for: that may be a package of the user's.
    """
    given = _given(host, context)
    works_by = {"LAUNCH_KERAS_FIX": context.keras_fix, "LAUNCH_TF_CONFIG": config}
    wanted = {key: value for key, value in works_by.items() if value and not is_off(given.get(key))}
    boots = wanted or "LAUNCH_KERAS" in host.env
    program = context.program if brings_training(command) else None
    if not boots and program is None:
        return {}
    modules = [program, given.get("PYTHONPATH")] if _is_default(command) else [given.get("PYTHONPATH"), program]
    path = [context.bootstrap if boots else None, *modules]
    return {"PYTHONPATH": ":".join(filter(None, path)), **wanted}
