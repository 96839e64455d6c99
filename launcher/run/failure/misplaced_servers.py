"""TensorFlow servers that are not where the cluster spec says: what a person is told. Pure."""

from __future__ import annotations

from launcher.hosts.events import PortShared, TaskWaitsElsewhere
from launcher.run.failure.failure import Runtime
from launcher.wording import listed

LAUNCHS_CONFIG = "the TF_CONFIG that launch sets"
LEAVE_OUT = f"{LAUNCHS_CONFIG}: leave --keep-tf-config, or LAUNCH_TF_CONFIG=0, out"
START_PYTHON = (
    f"{LAUNCHS_CONFIG}. It wins by itself in the process that launch has started: "
    "in a shell script write `exec python ...`"
)


def waiting_elsewhere(event: TaskWaitsElsewhere, seconds: float, runtime: Runtime) -> str:
    """A worker that does nothing, and does not listen at its own address."""
    if event.ports:
        where = f"it listens at {_ports(event.ports)} instead of {event.own_port}, for another cluster than launch's"
        remedy = f"let the program use {_way_to_ours(runtime)}"
    else:
        where = f"it has TensorFlow loaded, but listens nowhere (its own port is {event.own_port})"
        remedy = "if the others wait for it, see what it does before it creates its strategy or server"
    return (
        f"{event.task} on {event.host} has done nothing for {seconds:g} s: {where}, and waits{_for_whom(event)}. "
        f"What to do: {remedy}"
    )


def _way_to_ours(runtime: Runtime) -> str:
    return START_PYTHON if runtime.has_tf_config else LEAVE_OUT


def _ports(ports: tuple[int, ...]) -> str:
    return f"port{'' if len(ports) == 1 else 's'} {listed([str(port) for port in ports])}"


def _for_whom(event: TaskWaitsElsewhere) -> str:
    if event.dialled:
        return f" for {listed(event.dialled)}, which does not answer"
    return f" with a connection to {listed(event.connected)}" if event.connected else "; it is connected to nobody"


def sharing(event: PortShared) -> str:
    """Who serves TensorFlow at one port."""
    tasks = list(dict.fromkeys(task for task, _ in event.processes))
    pids = listed([str(pid) for _, pid in event.processes])
    who = listed([str(task) for task in tasks])
    both = "both" if len(event.processes) == 2 else "all"
    return (
        f"processes {pids} of {who} {both} serve TensorFlow at port {event.port}, and a connection reaches any of them"
    )


def remedy_for_sharing(event: PortShared, runtime: Runtime) -> str:
    """The remedy for two processes at one port."""
    if len({task for task, _ in event.processes}) > 1:
        return f"the program names one address for several tasks: let it use {_way_to_ours(runtime)}"
    return (
        "a worker may start TensorFlow's strategy or server in one process only: "
        "take TF_CONFIG out of the environment of its child processes"
    )
