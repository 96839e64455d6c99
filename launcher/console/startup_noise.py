"""Separates TensorFlow's known start-up notices from lines that a person wants to see. Pure.

The notices were collected from runs of TensorFlow 2.21, and from public reports for older versions and GPUs. Everything
that TensorFlow's C++ code logs at level INFO is noise; of its warnings and errors, only those listed here, which
healthy runs have, too.
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
    rb"failed call to cuInit: .{0,300}(?:UNKNOWN ERROR \(303\)|no CUDA-capable device)",
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
# Not compiled here: `re` compiles and caches them when a worker first writes, and by then the start is over.
_LATER_NOTICE = b"\n(?:" + _NOTICE + b")"
_CONTINUATION = (
    rb"To enable the following instructions: .* rebuild TensorFlow with"
    rb"|Your kernel may have been built without NUMA support"
    rb"|/job:\w+/replica:\d+/task:\d+\s*$"
    rb"|\s+\[\[\{\{node "
)
# A server prints the options of its first session as protocol buffer text: about 20 lines after this notice, then an
# empty one. Each line is indented or begins with a field of `ConfigProto` (tensorflow/core/protobuf/config.proto).
_OPTIONS_NOTICE = rb".*\] SessionOptions: "
_OPTIONS = (
    rb"(?:device_count|\w+_op_parallelism_threads|use_per_session_threads|session_inter_op_thread_pool|placement_period"
    rb"|device_filters|(?:gpu|pluggable_device|graph|rpc)_options|allow_soft_placement|log_device_placement"
    rb"|operation_timeout_in_ms|cluster_def|\w+_session_state|share_cluster_devices_in_session|experimental)"
    rb"(?:: \S+| \{)$"
    rb"|(?:  )+(?:\w+: \S.*|\w+ \{|\})$|\}$|$"
)


class NoiseReader:
    """Recognises noise in one worker's lines; a notice of several lines may be spread over several blocks."""

    def __init__(self) -> None:
        self._rest: bytes | None = None
        """What a continuation of the current notice looks like; None if the last line belonged to no notice."""

    def may_hold_noise(self, block: bytes) -> bool:
        """A quick check: False means that no line of the block (whole lines) is noise."""
        return self._rest is not None or bool(re.match(_NOTICE, block) or re.search(_LATER_NOTICE, block))

    def marked(self, block: bytes) -> Iterator[tuple[bytes, bool]]:
        """Each line of the block (whole lines), without its newline, and whether it is noise."""
        for line in block[:-1].split(b"\n"):
            yield line, self._is_noise(line)

    def _is_noise(self, line: bytes) -> bool:
        if re.match(_NOTICE, line):
            self._rest = _OPTIONS if re.match(_OPTIONS_NOTICE, line) else _CONTINUATION
            return True
        known = self._rest is not None and re.match(self._rest, line) is not None
        if not known or not line:  # an empty line ends the options of a session
            self._rest = None
        return known
