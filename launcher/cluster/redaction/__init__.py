"""What is secret, and how it is shown: never. Pure.

All that is written to a file or shown passes through here; what a worker gets does not.
"""

from __future__ import annotations

from launcher.cluster.redaction.texts import REDACTED, in_values, is_secret, redacted, redacted_text

__all__ = ["REDACTED", "in_values", "is_secret", "redacted", "redacted_text"]
