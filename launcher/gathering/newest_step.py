"""How far the chief's checkpoints have come on its host: asked for where nobody can wait for the files themselves."""

from __future__ import annotations

import re

from launcher.gathering.checkpoints import checkpoints_among, prefix_of
from launcher.gathering.remote_files import Listing
from launcher.gathering.selection import is_cache, is_temporary
from launcher.on_host.agent.files import EVERYTHING
from launcher.on_host.agent.messages import Event, FilesListed

MOST_FILES = 20_000
"""Of checkpoints. The supervisor itself looks at them, while hosts wait for its sign of life."""
_NUMBERED = re.compile(r"(?s).*-(\d{1,18})")


class NewestStep:
    """One answer of the chief's host, under way."""

    def __init__(self, *, is_over: bool = False) -> None:
        """`is_over`: nobody was asked."""
        self.is_over = is_over
        """Nothing more is to come."""
        self._listing = Listing()

    def add(self, news: Event) -> None:
        """The next part of the answer.

        Raises:
            RefusedError: it is none.
        """
        if self.is_over:
            return
        if isinstance(news, FilesListed):
            files = [file for file in news.files if prefix_of(file[0]) is not None]
            self._listing.add(FilesListed(news.number, files, [], []), [EVERYTHING])
        self.is_over = not isinstance(news, FilesListed) or len(self._listing.files) > MOST_FILES

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
