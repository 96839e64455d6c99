"""Files sent to one host, which puts them in place once all of them are there whole."""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Callable, Generator, Sequence
from pathlib import Path

from launcher.errors import HostError
from launcher.gathering.chief_directory import NoRoomError, check_room
from launcher.gathering.conversation import Conversation, Kind, expected
from launcher.gathering.remote_files import RemoteFile, readable
from launcher.on_host.agent.messages import (
    BeginDelivery,
    DeliverPiece,
    DeliveryPlaced,
    DeliveryReady,
    DropDelivery,
    FilesFailed,
    PieceDelivered,
    PlaceDelivery,
)
from launcher.restoring.parcels import Parcel
from launcher.run_directory.directory import file_name
from launcher.run_directory.state import RunHost
from launcher.run_directory.whole_files import shown
from launcher.transfer.outgoing import PIECE, Outgoing
from launcher.transfer.remedies import remedy


class Delivery:
    """Files sent to one host, by the thread that talks to it."""

    def __init__(self, host: RunHost, conversation: Conversation) -> None:
        self._host = host
        self._conversation = conversation
        self._number = conversation.new_number()
        self._outgoing = Outgoing(conversation.ask, lambda: self._answer(PieceDelivered))

    def bring(self, parcels: Sequence[Parcel], moved: Callable[[int], None]) -> None:
        """Send all of them, and have them put in place in this order. `moved` is called with the bytes of each piece.

        Raises:
            HostError: the host cannot take them; nothing is left there of those that were on their way.
            HostAwayError, GivenUpError: nobody answers any more.
            OSError: a file here cannot be read.
        """
        try:
            self._bring(parcels, moved)
        except BaseException:
            self._conversation.ask(DropDelivery(self._number))
            raise

    def _bring(self, parcels: Sequence[Parcel], moved: Callable[[int], None]) -> None:
        self._conversation.ask(BeginDelivery(self._number, self._host.output_dir, staging(self._host)))
        self._check_room(sum(parcel.file.size for parcel in parcels), self._answer(DeliveryReady).free)
        sent = [self._send_file(number, parcel, moved) for number, parcel in enumerate(parcels)]
        self._outgoing.drain()
        self._conversation.ask(PlaceDelivery(self._number, [*sent]))
        self._answer(DeliveryPlaced)

    def _send_file(self, number: int, parcel: Parcel, moved: Callable[[int], None]) -> RemoteFile:
        digest = hashlib.sha256()
        with contextlib.closing(pieces(parcel.content)) as coming:
            for piece in coming:
                self._outgoing.send(DeliverPiece(self._number, number, parcel.file.path, piece), len(piece))
                digest.update(piece)
                moved(len(piece))
        return parcel.file._replace(sha256=digest.hexdigest())

    def _answer(self, kind: type[Kind]) -> Kind:
        answer = self._conversation.answer(self._number)
        if isinstance(answer, FilesFailed):
            raise HostError(failed(self._host, answer))
        return expected(answer, kind)

    def _check_room(self, needed: int, free: int) -> None:
        try:
            check_room(shown(Path(self._host.output_dir)), "what a restart needs", needed, free)
        except NoRoomError as error:
            raise HostError(f"{self._host.name}: {error}; make room there") from error


def staging(host: RunHost) -> str:
    """A directory beside the output directory, and none of another host that shares the disk."""
    return f"{host.run_dir}/.bringing-{file_name(host.name)}"


def failed(host: RunHost, message: FilesFailed) -> str:
    what_to_do = remedy(
        message.code,
        no_room="make room there",
        no_permission="make it writable",
        occupied="something else stands there: move it away",
        otherwise="look at it there",
    )
    return f"{host.name}: {shown(Path(host.output_dir, message.path))}: {readable(message.reason)}; {what_to_do}"


def pieces(content: Path | bytes) -> Generator[bytes]:
    """The content, a frame at a time.

    Raises:
        OSError: the file cannot be read.
    """
    if isinstance(content, bytes):
        yield content
        return
    fd = os.open(content, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        while piece := os.read(fd, PIECE):
            yield piece
    finally:
        os.close(fd)
