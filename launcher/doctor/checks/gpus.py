"""GPUs: a driver that answers, as many for each worker everywhere, nobody else in their memory. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from launcher.doctor.answers import Gpus
from launcher.doctor.checks.odd_ones import odd_ones
from launcher.doctor.examination import Examination, HostExamination
from launcher.doctor.findings import Finding, Severity
from launcher.wording import listed

IN_USE = 0.1
"""The part of a GPU's memory above which somebody must be using it; a display takes less."""
SAME_NUMBER = "MultiWorkerMirroredStrategy needs the same number of replicas in every worker; else they hang"
NAMES_GPUS = "GPUs {} are in the cluster file, and there is none of that number"


def findings(examination: Examination) -> Iterator[Finding]:
    """Of these."""
    hosts = [each for each in examination.reached if each.answers.gpus is not None and each.host.tasks]
    for each in hosts:
        if each.answers.gpus is not None:
            yield from _of_one(each, each.answers.gpus)
    per_worker = {each.name: share(each, each.answers.gpus) for each in hosts if each.answers.gpus}
    usual, odd = odd_ones(per_worker)
    for host, count in odd.items():
        yield _error(
            "gpu_count",
            host,
            f"{count} GPUs for each worker, elsewhere {usual}",
            SAME_NUMBER,
            "share them out with `gpus`, or run another number of workers there",
        )
    yield from _different(hosts)


def share(each: HostExamination, gpus: Gpus) -> int:
    """How many GPUs one of its workers sees."""
    workers = sum(task.type != "ps" for task in each.host.tasks)
    if each.host.gpus is not None:
        return len(each.host.gpus) // max(1, workers)
    return len(gpus.devices)


def _of_one(each: HostExamination, gpus: Gpus) -> Iterator[Finding]:
    if gpus.complaint:
        yield _error(
            "gpu_driver",
            each.name,
            f"the NVIDIA driver does not answer: {gpus.complaint}",
            "TensorFlow would run on the CPU, or not at all",
            "restart the host after an update of the driver, or install the driver anew; `nvidia-smi` must work there",
            None,
        )
    absent = sorted(set(each.host.gpus or ()) - {gpu.index for gpu in gpus.devices})
    if absent:
        yield _error(
            "gpu_absent",
            each.name,
            f"`gpus` names {listed([str(number) for number in absent])}; it has {_numbers(gpus)}",
            "the worker that gets it would not see it, and train on the CPU",
            "name GPUs that are there",
        )
    workers = sum(task.type != "ps" for task in each.host.tasks)
    if workers > 1 and each.host.gpus is None and gpus.devices and not _hidden(each):
        yield _warning(
            "gpus_not_shared_out",
            each.name,
            f"{workers} workers, and nothing says which of them gets which of the {len(gpus.devices)} GPUs",
            "each would take all of the memory of all GPUs, and the second one finds none left",
            f"write gpus: {[gpu.index for gpu in gpus.devices]}",
        )
    wanted = gpus.devices if each.host.gpus is None else [gpu for gpu in gpus.devices if gpu.index in each.host.gpus]
    for gpu in wanted:
        if gpu.memory and gpu.used > IN_USE * gpu.memory:
            yield _warning(
                "gpu_in_use",
                each.name,
                f"{gpu.used} of {gpu.memory} MiB are in use on GPU {gpu.index} ({gpu.name})",
                "TensorFlow takes all of the memory, and may not find enough",
                "end what uses it (`nvidia-smi` there tells), or leave that GPU out of `gpus`",
            )
    yield from _seen_by_tensorflow(each, gpus)


def _seen_by_tensorflow(each: HostExamination, gpus: Gpus) -> Iterator[Finding]:
    tensorflow = each.answers.tensorflow
    expected = share(each, gpus)
    if tensorflow is None or tensorflow.reason or _hidden(each) or tensorflow.gpus == expected:
        return
    yield _error(
        "gpu_unseen",
        each.name,
        f"TensorFlow sees {tensorflow.gpus} of the {expected} GPUs of a worker "
        f"(driver {gpus.driver}, up to CUDA {gpus.cuda}; TensorFlow is built for CUDA {tensorflow.cuda or 'none'})",
        "the worker would train on the CPU, slowly, and differ from the others",
        "install TensorFlow with its CUDA libraries: pip install 'tensorflow[and-cuda]'",
        "python",
    )


def _different(hosts: list[HostExamination]) -> Iterator[Finding]:
    told = {each.name: each.answers.gpus for each in hosts if each.answers.gpus and each.answers.gpus.devices}
    for what, values, why, remedy in (
        (
            "driver",
            {host: gpus.driver for host, gpus in told.items()},
            "what works on one host may fail on the other",
            "install the same driver everywhere",
        ),
        (
            "kind of GPU",
            {host: ", ".join(sorted({gpu.name for gpu in gpus.devices})) for host, gpus in told.items()},
            "every step waits for the slowest",
            "",
        ),
    ):
        usual, odd = odd_ones(values)
        for host, value in odd.items():
            yield _warning("gpu_difference", host, f"{what}: {value}, elsewhere {usual}", why, remedy)


def _hidden(each: HostExamination) -> bool:
    """Whether the user has said himself which GPUs are seen."""
    return "CUDA_VISIBLE_DEVICES" in each.host.env


def _numbers(gpus: Gpus) -> str:
    return listed([str(gpu.index) for gpu in gpus.devices]) if gpus.devices else "none"


def _error(check: str, host: str, what: str, why: str, remedy: str, key: str | None = "gpus") -> Finding:
    return Finding(Severity.ERROR, check, (host,), what, why, remedy, key)


def _warning(check: str, host: str, what: str, why: str, remedy: str) -> Finding:
    return Finding(Severity.WARNING, check, (host,), what, why, remedy, "gpus")
