"""The logs of one host's workers, and their reports of progress: what is missing here comes, a hash proves the rest."""

from __future__ import annotations

import contextlib
import mmap
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from launcher.gathering.arrival import Arrival
from launcher.gathering.chief_directory import forbidden
from launcher.gathering.conversation import Conversation
from launcher.gathering.gathered import Batch, Gathered
from launcher.gathering.remote_files import RemoteFile
from launcher.on_host.agent.log import TRUNCATED
from launcher.run_directory.directory import RunDirectory

ENDINGS = (".log", ".progress.jsonl")


class WorkerLogs:
    """Files that only grow: what is here already is the beginning of what is there, or else it is fetched anew."""

    def __init__(self, directory: RunDirectory, root: str, tasks: Iterable[str]) -> None:
        """Nothing is asked yet.

        Args:
            directory: of the run.
            root: the run's directory on the host.
            tasks: the slugs of the tasks that ran there.
        """
        self._directory = directory
        self._root = root
        self._names = {f"{task}{ending}" for task in tasks for ending in ENDINGS}

    def gather(self, conversation: Conversation) -> Gathered:
        """Bring what is missing, of every attempt. No worker writes any more.

        Raises:
            HostAwayError, GivenUpError: nobody answers any more. What has come is kept.
            OSError: it cannot be written here.
        """
        any(self._directory.path.iterdir())  # where that fails nobody can tell which attempts there were
        attempts = [self._directory.attempt(number).name for number in range(self._directory.next_attempt())]
        listing = conversation.list(self._root, attempts)
        gathered = Gathered(left=dict(listing.left))
        if not listing.files and not listing.left:
            gathered.left[self._root] = "nothing of this run is there any more"
        wanted = list(self._wanted(listing.files.values(), gathered))
        with contextlib.closing(conversation.fetch(self._root, map(self._begin, wanted))) as arriving:
            for each in arriving:
                gathered.received += each.received
                if each.failure is not None:
                    gathered.left[each.file.path] = each.failure
                    each.discard()
                elif each.received:
                    each.put()
                    gathered.batches.append(Batch(each.file.path, (each.file,)))
                each.close()
        return gathered

    def _wanted(self, files: Iterable[RemoteFile], gathered: Gathered) -> Iterator[RemoteFile]:
        for file in files:
            if file.name not in self._names or file.path.count("/") != 1:
                continue
            try:
                is_longer_here = self._size_here(file) > file.size
                since_truncated = self._since_truncated(file)
            except OSError as error:
                gathered.left[file.path] = f"here: {error.strerror}"
                gathered.trouble = gathered.trouble or error
                continue
            if since_truncated is not None:
                if since_truncated != file.size:
                    gathered.left[file.path] = "the worker has truncated it there, and its end has not come"
            elif is_longer_here:
                gathered.left[file.path] = "more of it is here than there: the host has lost the end of it"
            else:
                yield file

    def _size_here(self, file: RemoteFile) -> int:
        """Bytes of it that are here.

        Raises:
            OSError: it cannot be written here.
        """
        place = self._place(file)
        try:
            size = place.stat().st_size
        except FileNotFoundError:
            return 0
        if error := forbidden(place, os.R_OK | os.W_OK):
            raise error
        return size

    def _since_truncated(self, file: RemoteFile) -> int | None:
        """Bytes that came after the worker had truncated its log there; None: it never did, as far as is known here."""
        with contextlib.suppress(FileNotFoundError), self._place(file).open("rb") as here:
            if file.name.endswith(".log") and os.fstat(here.fileno()).st_size:
                with mmap.mmap(here.fileno(), 0, access=mmap.ACCESS_READ) as content:
                    found = content.rfind(TRUNCATED)
                    return None if found < 0 else len(content) - found - len(TRUNCATED)
        return None

    def _begin(self, file: RemoteFile) -> Arrival:
        place = self._place(file)
        return Arrival(file, place, place.with_name(f".{place.name}.part"), in_place=True)

    def _place(self, file: RemoteFile) -> Path:
        return self._directory.path / file.path
