"""How far the chief's checkpoints have come on its host: asked for where nobody can wait for the files themselves."""

from __future__ import annotations

import re

from launcher.agent.files import EVERYTHING
from launcher.events import FileNews
from launcher.gathering.checkpoints import checkpoints_among
from launcher.gathering.remote_files import Listing
from launcher.gathering.selection import is_cache, is_temporary

_NUMBERED = re.compile(r"(?s).*-(\d{1,18})")


class NewestStep:
    """One answer of the chief's host, under way."""

    def __init__(self, *, is_over: bool = False) -> None:
        """`is_over`: nobody was asked."""
        self.is_over = is_over
        """Nothing more is to come."""
        self._listing = Listing()

    def take(self, news: FileNews) -> None:
        """The next part of the answer."""
        if news.kind == "listed":
            self._listing.take(news.told, [EVERYTHING])
        else:
            self.is_over = True

    @property
    def step(self) -> int | None:
        """The highest number of a complete checkpoint; None: there is none, or nobody has told of it."""
        files = [
            file for file in self._listing.files.values() if not is_temporary(file.path) and not is_cache(file.path)
        ]
        numbers = [
            int(numbered[1])
            for each in checkpoints_among(files).values()
            if each.complete and (numbered := _NUMBERED.fullmatch(each.prefix))
        ]
        return max(numbers, default=None)
