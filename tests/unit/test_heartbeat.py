"""When a host that does not answer is told to be in trouble, and when that is over."""

from __future__ import annotations

import pytest

from launcher.hosts.events import HostAnswersAgain, HostSilent, as_record
from launcher.hosts.heartbeat import change

DEFAULT = 15.0


@pytest.mark.parametrize(
    ("silence", "lease", "was_silent", "told"),
    [
        pytest.param(3.1, DEFAULT, False, None, id="a beat is on its way"),
        pytest.param(5.9, DEFAULT, False, HostSilent("gpu-b", 5.9, DEFAULT), id="two beats were not answered"),
        pytest.param(8.9, DEFAULT, True, None, id="it was told"),
        pytest.param(0.1, DEFAULT, True, HostAnswersAgain("gpu-b"), id="it answers again"),
        pytest.param(0.1, DEFAULT, False, None, id="all is well"),
        pytest.param(1.1, 2.0, False, HostSilent("gpu-b", 1.1, 2.0), id="half of a short lease"),
        pytest.param(24.0, 120.0, False, None, id="a long lease, in which beats are 24 s apart"),
        pytest.param(48.0, 120.0, False, HostSilent("gpu-b", 48.0, 120.0), id="the second of them is not answered"),
    ],
)
def test_a_silence_is_told_once_and_its_end_as_well(
    silence: float, lease: float, was_silent: bool, told: HostSilent | HostAnswersAgain | None
) -> None:
    assert change("gpu-b", silence, lease, was_silent) == told


def test_a_host_that_was_not_asked_is_not_silent() -> None:
    assert change("gpu-b", 5.9, DEFAULT, False, late=2.9) is None


def test_a_silent_host_is_told_with_the_time_that_is_left_to_it() -> None:
    silent = HostSilent("gpu-b", 5.987, DEFAULT)

    assert silent.line == "gpu-b has not answered for 6 s; it is given up after 15 s (timeouts.lease)"
    assert as_record(silent)["type"] == "host_silent"
