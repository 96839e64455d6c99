"""Ports that are free on this machine at this moment, where none can be held: dry runs and `hold_ports: false`."""

from __future__ import annotations

from launcher.cluster.cluster import Host
from launcher.cluster.spec import Task
from launcher.errors import HostError


def free_ports(host: Host) -> dict[Task, int]:
    """One free port for each task of a host, from its `ports` if it names some (portpicker knows portservers).

    Raises:
        HostError: the range has not as many free ports as there are tasks.
    """
    import portpicker

    if host.ports is None:
        return {task: portpicker.pick_unused_port() for task in host.tasks}
    candidates = range(host.ports.first, host.ports.last + 1)
    found = [port for port in candidates if portpicker.is_port_free(port)][: len(host.tasks)]
    if len(found) < len(host.tasks):
        raise HostError(
            f"{host.name}: {len(host.tasks)} free ports are needed in {host.ports.first}-{host.ports.last}, "
            f"{len(found)} were found; change `ports`"
        )
    return dict(zip(host.tasks, found, strict=True))
