"""TensorFlow's known notices at start-up, told from lines that a person wants to see. Pure.

Collected from runs of TensorFlow 2.21, and from public reports for older versions and GPUs. All that its C++ code logs
at level INFO is noise; of its warnings and errors only those listed here, which healthy runs have, too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

# I0000 00:00:1795179917.003950    4349 port.cc:153] ...            TensorFlow 2.18 and later
# 2025-09-17 14:44:05.157831: I external/local_xla/.../cudart_stub.cc:32] ...         before
_NATIVE = (
    rb"(?:%(level)s\d{4} \d\d:\d\d:[\d.]+ +\d+ |\d{4}-\d\d-\d\d \d\d:\d\d:[\d.]+: %(level)s )[\w./+-]+\.(?:cc|h):\d+\] "
)
_HARMLESS = (
    rb"failed call to cuInit: .*(?:UNKNOWN ERROR \(303\)|no CUDA-capable device)",
    rb"Unable to register \w+ factory: ",
    rb"computation placer already registered",
    rb"Input of \w+::Dataset will not be optimized because",
    rb"TF-TRT Warning: Could not find TensorRT",
    rb"Local rendezvous is aborting with status: OUT_OF_RANGE",
)
_NOTICE = b"|".join(
    (
        _NATIVE % {b"level": b"I"},
        _NATIVE % {b"level": b"[WE]"} + b"(?:" + b"|".join(_HARMLESS) + b")",
        rb"WARNING: All log messages before absl::InitializeLog\(\) is called are written to STDERR",
    )
)
# Compiled at their first use, and kept by `re`: that is when a worker writes, and the launcher has time.
_LATER_NOTICE = b"\n(?:" + _NOTICE + b")"
_CONTINUATION = (
    rb"To enable the following instructions: .* rebuild TensorFlow with"
    rb"|Your kernel may have been built without NUMA support"
    rb"|/job:\w+/replica:\d+/task:\d+\s*$"
    rb"|\s+\[\[\{\{node "
)


class NoiseReader:
    """Tells the noise in one worker's lines; a notice of several lines may be spread over several blocks."""

    def __init__(self) -> None:
        self._in_notice = False

    def may_hold_noise(self, block: bytes) -> bool:
        """Quick: False means that no line of the block (whole lines) is noise."""
        return self._in_notice or bool(re.match(_NOTICE, block) or re.search(_LATER_NOTICE, block))

    def marked(self, block: bytes) -> Iterator[tuple[bytes, bool]]:
        """Each line of the block (whole lines), without its newline, and whether it is noise."""
        for line in block[:-1].split(b"\n"):
            known = re.match(_NOTICE, line) or (self._in_notice and re.match(_CONTINUATION, line))
            self._in_notice = bool(known)
            yield line, self._in_notice
