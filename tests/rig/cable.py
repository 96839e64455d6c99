"""The cable from a host to the switch that all hosts and the login machine share, and what can be wrong with it."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable
from pathlib import Path

from rig.lab import ENVIRONMENT, Lab, RigError, checked, namespaces_of
from rig.native import built

SWITCH = "switch"
NETWORK = "10.77.0"
NETWORK_6 = "fd77:"
HAS_IPV6 = Path("/proc/net/if_inet6").exists()


def address(number: int) -> str:
    """Of host `number`; 10.77.0.1 is the login machine."""
    return f"{NETWORK}.{number + 10 if number else 1}"


def address_6(number: int) -> str:
    """The same in IPv6: host 1 has fd77::11, the login machine fd77::1."""
    return f"{NETWORK_6}:{number + 10 if number else 1}"


def addresses(number: int) -> list[str]:
    """Those that it has."""
    return [address(number), address_6(number)] if HAS_IPV6 else [address(number)]


def mac(number: int) -> str:
    """Of the host's network card."""
    return f"02:77:00:00:00:{number:02x}"


def set_up_switch(lab: Lab) -> None:
    """Make the switch, with the login machine on it."""
    lab.set_up_network(
        f"link add {SWITCH} type bridge stp_state 0 forward_delay 0 mcast_snooping 0",
        f"address add {address(0)}/24 dev {SWITCH}",
        *([f"address add {address_6(0)}/64 dev {SWITCH} nodad"] if HAS_IPV6 else []),
        f"link set {SWITCH} up",
    )


class Cable:
    """Its end on the host is `eth0`; the other one bears the host's name."""

    def __init__(self, lab: Lab, number: int, name: str, neighbours: Iterable[int] = ()) -> None:
        """`neighbours`: hosts whose network cards this one need not ask for."""
        self._lab, self._number, self._end = lab, number, name
        self._neighbours = [each for each in neighbours if each != number]
        self._port = self._end
        """The switch's port: the end of the cable, or of the piece that a slow cable has in between."""
        self._is_cut = False
        self._slow: subprocess.Popen[str] | None = None

    def lay(self, pid: int) -> None:
        """Connect the host whose first process this is."""
        self._in_host = namespaces_of(pid, "net")
        self._lab.set_up_network(
            f"link add {self._end} type veth peer name eth0 address {mac(self._number)} netns {pid}",
            f"link set {self._end} master {SWITCH} up",
        )
        lines = [f"address add {address(self._number)}/24 dev eth0", "link set eth0 up"]
        if HAS_IPV6:
            lines.insert(1, f"address add {address_6(self._number)}/64 dev eth0 nodad")
        known = [(each, mac(number)) for number in self._neighbours for each in addresses(number)]
        lines += [f"neighbour add {each} lladdr {card} dev eth0 nud permanent" for each, card in known]
        checked([*self._in_host, "ip", "-batch", "-"], "\n".join(lines) + "\n")

    def remove(self) -> None:
        """Take away what is left of it: a host that dies takes its end along."""
        if self._slow:
            self._slow.communicate()
        self._slow, self._port, self._is_cut = None, self._end, False
        for card in (f"{self._end}-far", self._end):
            subprocess.run(
                [*self._lab.on_login_machine, "ip", "link", "delete", card], stderr=subprocess.DEVNULL, env=ENVIRONMENT
            )

    def cut(self) -> None:
        """Frames vanish in both directions, and nobody is told."""
        self._is_cut = True
        self._set_port("disabled")

    def mend(self) -> None:
        """They pass again."""
        self._is_cut = False
        self._set_port("forwarding")

    def unplug(self) -> None:
        """Both ends see that there is no cable any more."""
        self._lab.set_up_network(f"link set {self._end} down")

    def plug(self) -> None:
        """It is back."""
        self._lab.set_up_network(f"link set {self._end} up")
        self._stay_cut()

    def limit(self, rate: str) -> None:
        """So much passes in each direction: "10mbit", as `tc` writes it."""
        for where, card in ((self._lab.on_login_machine, self._end), (self._in_host, "eth0")):
            shape = ("tbf", "rate", rate, "burst", "64k", "latency", "200ms")
            checked([*where, "tc", "qdisc", "replace", "dev", card, "root", *shape])

    def unlimit(self) -> None:
        """As much passes as can."""
        for where, card in ((self._lab.on_login_machine, self._end), (self._in_host, "eth0")):
            checked([*where, "tc", "qdisc", "replace", "dev", card, "root", "noqueue"])

    def impair(self, delay_ms: float = 0.0, jitter_ms: float = 0.0, loss: float = 0.0) -> None:
        """In each direction a packet takes `delay_ms`, give or take `jitter_ms`, and the part `loss` of them is lost.

        Many kernels come without netem, so a program of ours stands between cable and switch.
        """
        self._remove_slow_piece()
        if not (delay_ms or jitter_ms or loss):
            return
        near, far = f"{self._end}-near", f"{self._end}-far"
        self._lab.set_up_network(
            f"link set {self._end} nomaster arp off",
            f"link add {far} type veth peer name {near}",
            f"link set {near} arp off up",
            f"link set {far} master {SWITCH} up",
        )
        self._port = far
        self._slow = subprocess.Popen(
            [
                *self._lab.inside,
                str(built("delay", self._lab.directory)),
                near,
                self._end,
                str(delay_ms),
                str(jitter_ms),
                str(loss),
            ],
            stdin=subprocess.PIPE,  # its end is the program's
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=ENVIRONMENT,
            start_new_session=True,
        )
        assert self._slow.stdout is not None
        if not self._slow.stdout.readline():
            raise RigError(self._slow.communicate()[1])
        self._stay_cut()

    def _remove_slow_piece(self) -> None:
        if self._slow is None:
            return
        self._slow.communicate()
        self._slow = None
        self._lab.set_up_network(f"link delete {self._port}", f"link set {self._end} arp on master {SWITCH}")
        self._port = self._end
        self._stay_cut()

    def _stay_cut(self) -> None:
        if self._is_cut:
            self._set_port("disabled")

    def _set_port(self, state: str) -> None:
        checked([*self._lab.on_login_machine, "bridge", "link", "set", "dev", self._port, "state", state])
