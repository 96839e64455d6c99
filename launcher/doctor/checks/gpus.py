"""GPUs: whether the driver answers, each worker gets as many, and no other program uses their memory. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from launcher.doctor.examination import Examination, HostExamination
from launcher.doctor.findings import ERROR, WARNING, Finding, odd_ones
from launcher.on_host.probe.answers import Gpus
from launcher.wording import listed

NO_DRIVER = Finding(ERROR, "gpu_driver").because(
    "TensorFlow would run on the CPU, or not at all",
    "restart the host after an update of the driver, or install the driver anew; `nvidia-smi` must work there",
)
ABSENT = Finding(ERROR, "gpu_absent", "gpus").because(
    "the worker that gets it would not see it, and train on the CPU",
    "name GPUs that are there",
)
NOT_SHARED_OUT = Finding(WARNING, "gpus_not_shared_out", "gpus").because(
    "each would take all of the memory of all GPUs, and the second one finds none left",
)
IN_USE = Finding(WARNING, "gpu_in_use", "gpus").because(
    "TensorFlow takes all of the memory, and may not find enough",
    "end what uses it (`nvidia-smi` there tells), or leave that GPU out of `gpus`",
)
UNSEEN = Finding(ERROR, "gpu_unseen", "python").because(
    "the worker would train on the CPU, slowly, and differ from the others",
    "install TensorFlow with its CUDA libraries: pip install 'tensorflow[and-cuda]'",
)
OTHER_NUMBER = Finding(ERROR, "gpu_count", "gpus").because(
    "MultiWorkerMirroredStrategy needs the same number of replicas in every worker; else they hang",
    "share them out with `gpus`, or run another number of workers there",
)
OTHER_DRIVER = Finding(WARNING, "gpu_difference", "gpus").because(
    "what works on one host may fail on the other",
    "install the same driver everywhere",
)
OTHER_KIND = Finding(WARNING, "gpu_difference", "gpus").because("every step waits for the slowest")
PART_IN_USE = 0.1
"""Of a GPU's memory, how much may be in use before we take it that a program uses the GPU; a display takes less."""


def findings(examination: Examination) -> Iterator[Finding]:
    hosts = [(each, each.answers.gpus) for each in examination.reached if each.answers.gpus and each.host.tasks]
    for each, gpus in hosts:
        yield from _on(each, gpus)
    usual, odd = odd_ones({each.name: share(each, gpus) for each, gpus in hosts})
    for host, count in odd.items():
        yield OTHER_NUMBER.on(host, f"{count} GPUs for each worker, elsewhere {usual}")
    drivers = {each.name: gpus.driver for each, gpus in hosts if gpus.devices}
    kinds = {each.name: ", ".join(sorted({gpu.name for gpu in gpus.devices})) for each, gpus in hosts if gpus.devices}
    for finding, name, values in ((OTHER_DRIVER, "driver", drivers), (OTHER_KIND, "kind of GPU", kinds)):
        same, different = odd_ones(values)
        yield from (finding.on(host, f"{name}: {value}, elsewhere {same}") for host, value in different.items())


def share(each: HostExamination, gpus: Gpus) -> int:
    """How many GPUs one of its workers sees."""
    return len(gpus.devices) if each.host.gpus is None else len(each.host.gpus) // max(1, _workers(each))


def _workers(each: HostExamination) -> int:
    return sum(task.type != "ps" for task in each.host.tasks)


def _on(each: HostExamination, gpus: Gpus) -> Iterator[Finding]:
    numbers, named = [gpu.index for gpu in gpus.devices], each.host.gpus
    chosen_by_user = "CUDA_VISIBLE_DEVICES" in each.host.env
    if gpus.complaint:
        yield NO_DRIVER.on(each.name, f"the NVIDIA driver does not answer: {gpus.complaint}")
    absent = sorted(set(named or ()) - set(numbers))
    if absent:
        there = listed(list(map(str, numbers))) if numbers else "none"
        yield ABSENT.on(each.name, f"`gpus` names {listed(list(map(str, absent)))}; it has {there}")
    workers = _workers(each)
    if workers > 1 and named is None and numbers and not chosen_by_user:
        what = f"{workers} workers, and nothing says which of them gets which of the {len(numbers)} GPUs"
        yield NOT_SHARED_OUT.on(each.name, what, remedy=f"write gpus: {numbers}")
    for gpu in gpus.devices:
        if (named is None or gpu.index in named) and gpu.memory and gpu.used > PART_IN_USE * gpu.memory:
            what = f"{gpu.used} of {gpu.memory} MiB are in use on GPU {gpu.index} ({gpu.name})"
            yield IN_USE.on(each.name, what)
    tensorflow, expected = each.answers.tensorflow, share(each, gpus)
    if tensorflow and not tensorflow.reason and not chosen_by_user and tensorflow.gpus != expected:
        what = (
            f"TensorFlow sees {tensorflow.gpus} of the {expected} GPUs of a worker "
            f"(driver {gpus.driver}, up to CUDA {gpus.cuda}; TensorFlow is built for CUDA {tensorflow.cuda or 'none'})"
        )
        yield UNSEEN.on(each.name, what)
