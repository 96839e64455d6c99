"""What a host other than the chief's has in its output directory: it stays there, and the user is told where."""

from __future__ import annotations

from launcher.gathering.conversation import Conversation
from launcher.gathering.gathered import Gathered
from launcher.gathering.selection import is_cache, is_temporary
from launcher.on_host.agent.files import EVERYTHING


class OtherOutput:
    """The output directory of one such host."""

    def __init__(self, output_dir: str) -> None:
        """Nothing is asked yet."""
        self._output_dir = output_dir

    def gather(self, conversation: Conversation, *, final: bool) -> Gathered:
        """List what is there once nothing runs any more; nothing is brought.

        Raises:
            HostAwayError, GivenUpError: nobody answers any more.
        """
        if not final:
            return Gathered()
        files = conversation.list(self._output_dir, [EVERYTHING]).files.values()
        return Gathered(stays=tuple(each for each in files if not is_temporary(each.path) and not is_cache(each.path)))
