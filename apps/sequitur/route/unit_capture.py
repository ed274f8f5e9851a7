"""What a router's consumers promise is kept in the replay log, in the transaction of END."""

import time
from collections.abc import Sequence
from pathlib import Path

from sqlalchemy import Connection, Engine

from sequitur.replay.content import Contents, check_contents
from sequitur.replay.replay_file import read_replay_file
from stores.replay import CapturedMessage, ReplayLog
from stores.segments import OutboundMessage
from stores.segments.transports.kafka import ID
from topology.model.errors import DeclarationError
from topology.model.event import Record


class UnitCapture:
    """Keeps outbound messages.

    Args:
        path: of the replay log's TOML file; its fields and streams count, by destination.
        engine: of the ledger, in whose database the log is.
        url: of that database.
        site: the router's.

    Raises:
        DeclarationError: what is wrong, and where.
        OSError: the file cannot be read.
    """

    def __init__(self, path: Path, engine: Engine, url: str, site: str) -> None:
        self._file, self._site = read_replay_file(path), site
        if self._file.url != url:
            raise DeclarationError(
                f"units: capture: the database of {path} is another one than the ledger's; only in "
                "one are END and the log moved at once: give both the same URL"
            )
        check_contents(self._file)
        self._log = ReplayLog(engine, self._file.fields)
        self._log.create()
        self._contents: dict[str, Contents] = {}

    def note(self, connection: Connection, messages: Sequence[OutboundMessage]) -> None:
        """Keep messages in the transaction that promises them.

        Args:
            connection: whose transaction it is.
            messages: in order, with their ids.
        """
        if messages:
            now = round(time.time() * 1000)
            self._log.note(connection, [self._captured(each, now) for each in messages])

    def _captured(self, message: OutboundMessage, now: int) -> CapturedMessage:
        topic = message.destination
        if (contents := self._contents.get(topic)) is None:
            contents = self._contents[topic] = Contents(self._file, topic)
        headers = (*(each for each in message.headers if each[0] != ID), (ID, message.id.encode()))
        record = Record(topic, -1, -1, message.key, message.value, headers, now)
        stream, sequence, metadata = contents.find(record)
        if message.stream is not None:
            stream, sequence = message.stream, message.sequence
        return CapturedMessage(
            *(topic, -1, -1, message.value, now, message.key, headers, self._site, ""),
            *(stream, sequence, metadata),
        )
