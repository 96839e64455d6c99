"""What a worker finds on this machine: packages, TensorFlow, GPUs, the network card, limits."""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import resource
import shutil
import socket
import struct
import subprocess
import sys
import threading
from importlib import metadata
from importlib.machinery import PathFinder
from pathlib import Path

from launcher.on_host.agent.facts import ipv6_address, ipv6_entries
from launcher.on_host.agent.gate import check_kernel
from launcher.on_host.probe.answers import Gpu, Gpus, NetworkCard, PythonFound, Surroundings, TensorFlowFound

TENSORFLOWS = (
    *("tensorflow", "tensorflow-cpu", "tensorflow-gpu", "tensorflow-rocm", "tensorflow-aarch64", "tensorflow-cpu-aws"),
    *("intel-tensorflow", "tf-nightly", "tf-nightly-cpu", "tf-nightly-gpu"),
)
"""The packages that have the module `tensorflow`."""
OTHERS = ("keras", "tf-keras", "numpy")
PROXIES = ("http_proxy", "https_proxy", "all_proxy", "grpc_proxy", "no_proxy", "no_grpc_proxy")
ASKED_OF_GPUS = ("index", "name", "memory.total", "memory.used", "driver_version")
NVIDIA_SMI_SECONDS = 15
SIOCGIFADDR = 0x8915
DNS_SECONDS = 3.0


def python() -> PythonFound:
    return PythonFound(".".join(map(str, sys.version_info[:3])), sys.executable)


def packages() -> dict[str, str]:
    """Versions by name, from the metadata of installed packages: importing TensorFlow takes seconds."""
    found = {name: version for name in OTHERS if (version := version_of(name))}
    spec = PathFinder.find_spec("tensorflow")
    if spec is not None and spec.origin is not None:  # None: a directory with nothing in it to import
        found["tensorflow"] = next(filter(None, map(version_of, TENSORFLOWS)), "of unknown version")
    return found


def version_of(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def tensorflow() -> TensorFlowFound:
    """Import TensorFlow, and see which GPUs it can use. Only the workers' Python is asked for this."""
    try:
        import tensorflow as tf

        devices = tf.config.list_physical_devices("GPU")
        build = tf.sysconfig.get_build_info()
    except Exception as error:
        return TensorFlowFound(reason=f"{type(error).__name__}: {error}")
    return TensorFlowFound(tf.__version__, len(devices), build.get("cuda_version", ""))


def surroundings() -> Surroundings:
    proxies = {name: value for name, value in os.environ.items() if name.lower() in PROXIES and value}
    open_files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return Surroundings(proxies, open_files, sys.stdout.encoding.lower(), os.environ.get("CUDA_VISIBLE_DEVICES"))


def gate() -> str:
    """Why strangers cannot be kept off the workers' ports; empty if they can."""
    try:
        check_kernel()
    except OSError as error:
        return error.strerror or str(error)
    return ""


def gpus() -> Gpus:
    if shutil.which("nvidia-smi") is None:
        return Gpus()
    command = ["nvidia-smi", f"--query-gpu={','.join(ASKED_OF_GPUS)}", "--format=csv,noheader,nounits"]
    try:
        asked = subprocess.run(command, capture_output=True, text=True, timeout=NVIDIA_SMI_SECONDS)
    except (OSError, subprocess.TimeoutExpired) as error:
        return Gpus(complaint=str(error))
    rows = [[word.strip() for word in line.split(",")] for line in asked.stdout.splitlines()]
    rows = [row for row in rows if len(row) == len(ASKED_OF_GPUS)]
    if asked.returncode or not rows:
        return Gpus(complaint=" ".join((asked.stdout + asked.stderr).split()) or "it lists no GPU")
    devices = tuple(Gpu(int(index), name, mebibytes(total), mebibytes(used)) for index, name, total, used, _ in rows)
    return Gpus(rows[0][-1], cuda_of_driver(), devices)


def mebibytes(text: str) -> int:
    return int(text) if text.isdigit() else 0


def cuda_of_driver() -> str:
    version = ctypes.c_int()
    try:
        ctypes.CDLL("libcuda.so.1").cuDriverGetVersion(ctypes.byref(version))
    except (OSError, AttributeError):
        return ""
    return f"{version.value // 1000}.{version.value % 1000 // 10}"


def network_cards(*addresses: str) -> dict[str, NetworkCard]:
    """By address, the card that has it."""
    return {address: network_card(address) for address in addresses}


def network_card(address: str) -> NetworkCard:
    own = addresses_for(address)
    name = next((name for _, name in socket.if_nameindex() if own.intersection(addresses_of(name))), "")
    return NetworkCard(name, number_of(name, "mtu"), max(0, number_of(name, "speed")))


def addresses_for(name: str) -> set[str]:
    """The addresses of a name, or the address itself; none if DNS does not know the name, or does not answer."""
    found: set[str] = set()

    def look_up() -> None:
        with contextlib.suppress(OSError, ValueError):
            found.update(str(place[0]) for *_, place in socket.getaddrinfo(name, None))

    looking = threading.Thread(target=look_up, daemon=True)
    looking.start()
    looking.join(DNS_SECONDS)
    return set(found)


def number_of(card: str, what: str) -> int:
    """A number that the kernel has for a network card; 0 if it has none."""
    try:
        return int(Path("/sys/class/net", card, what).read_text())
    except (OSError, ValueError):
        return 0


def addresses_of(card: str) -> list[str]:
    """Its first IPv4 address and all its IPv6 addresses."""
    found = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket, contextlib.suppress(OSError):  # it has none
        told = fcntl.ioctl(any_socket, SIOCGIFADDR, struct.pack("256s", card.encode()))
        found.append(socket.inet_ntoa(told[20:24]))
    return found + [ipv6_address(entry) for entry in ipv6_entries() if entry[-1] == card]
