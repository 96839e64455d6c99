"""How far the chief's checkpoints have come on its host: asked for where nobody can wait for the files themselves."""

from __future__ import annotations

import re
from collections.abc import Iterable

from launcher.gathering.checkpoints import checkpoints_among
from launcher.gathering.conversation import Conversation, Errand
from launcher.gathering.remote_files import RemoteFile
from launcher.gathering.selection import is_cache, is_temporary
from launcher.on_host.agent.files import EVERYTHING

_NUMBERED = re.compile(r"(?s).*-(\d{1,18})")


class NewestStep:
    """The answer of the chief's host, once it has come."""

    def __init__(self) -> None:
        self.step: int | None = None
        """The highest number of a complete checkpoint; None: there is none, or nobody has told of it."""
        self.errand: Errand | None = None
        """None: nobody was asked."""

    @property
    def is_over(self) -> bool:
        """Nothing more is to come."""
        return self.errand is None or self.errand.is_over

    def find(self, root: str, conversation: Conversation) -> None:
        self.step = newest_step_among(conversation.list(root, [EVERYTHING]).files.values())


def newest_step_among(files: Iterable[RemoteFile]) -> int | None:
    numbers = [
        int(numbered[1])
        for each in checkpoints_among(
            file for file in files if not is_temporary(file.path) and not is_cache(file.path)
        ).values()
        if each.complete and (numbered := _NUMBERED.fullmatch(each.prefix))
    ]
    return max(numbers, default=None)
