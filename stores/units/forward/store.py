"""Messages that wait on the sender's disk: a message log in an SQLite file.

All that waits for a destination is one stream of the log, so its sequence is the order in which it
is forwarded, and has no gap. The stream's id is random, and names the file.
"""

import fcntl
import os
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

from sqlalchemy import Connection, event, select
from sqlalchemy.exc import DatabaseError, OperationalError

from stores.db.engines import open_engine
from stores.db.sqlite_engine import begin_immediate
from stores.db.urls import said
from stores.message import Message
from stores.outbox.capture import Outbox
from stores.outbox.log import MessageLog
from stores.outbox.message import Draft, MessageRefused
from stores.outbox.tables import MessageTables
from stores.units.errors import SendRefused, UnitError
from stores.units.kafka.records import OutgoingMessage
from topology.model.printable import printable

NAME = "sequitur_units"
"""How the log's tables begin: the file may have others."""
PART = "part"
"""Kind of a message that is sent whole with the one behind it, or not at all."""
TOGETHER = 1_000
"""Messages that are sent whole or not at all, at most."""
TOGETHER_BYTES = 16 << 20
"""Bytes of them, at most."""
AT_ONCE = 16
"""Messages that are read at once: 16 MB at most."""
PAGE = 4_096
LEAST = 1 << 20
"""Bytes of a page of the file, and of the smallest limit."""


@dataclass(frozen=True, slots=True)
class Backlog:
    """What waits. forwarded: the sequence up to which, as the file says, all is forwarded; since:
    when the oldest message was sent, in seconds since 1970."""

    forwarded: int
    messages: int
    since: float | None


class UnitStore:
    """The file of a sender's messages for one destination. Any number of processes append to it.

    size: bytes that the file may have, for those who append. Raises UnitError: the file cannot be
    opened, or is no store.
    """

    def __init__(self, path: str | Path, destination: str, size: int | None = None) -> None:
        if size is not None and size < LEAST:
            raise ValueError(f"size is {size}: a store has at least {LEAST} bytes")
        self.path, self.destination, self._size = Path(path), destination, size
        if "?" in str(path):  # what is behind it would be no part of the file's name
            raise ValueError(
                f"{self.path} cannot be a store: choose a path without a question mark"
            )
        self._log = MessageLog(NAME)
        self._outbox = Outbox(self._log)
        self._engine = begin_immediate(open_engine(f"sqlite:///{self.path}"))
        if size is not None:
            event.listen(self._engine, "connect", self._limit)
        try:  # for its owner alone; what SQLite makes beside it is for the same
            os.close(os.open(self.path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600))
            with self._engine.begin() as connection:
                self._log.create(connection)
                self.name = self._named(connection)
        except (OSError, DatabaseError) as error:
            raise UnitError(
                f"{self.path} cannot be used as a store: {printable(said(error))}; see whether it "
                "is an SQLite file that this user may write"
            ) from None

    def close(self) -> None:
        """Close the file."""
        self._engine.dispose()

    def _limit(self, connection: sqlite3.Connection, _: Any) -> None:
        assert self._size is not None
        connection.execute(f"PRAGMA max_page_count={self._size // PAGE}")

    def append(self, messages: Iterable[tuple[OutgoingMessage, str | None]]) -> None:
        """Append messages with their units' names, all of them or none; on disk when it returns.

        They are sent whole or not at all. Raises SendRefused: the store is full, or cannot be
        written; ValueError: one cannot be sent, or these are too many.
        """
        given = list(messages)
        if len(given) > TOGETHER or sum(len(each.value) for each, _ in given) > TOGETHER_BYTES:
            raise ValueError(
                f"{len(given)} messages together: a store takes {TOGETHER}, and {TOGETHER_BYTES} "
                "bytes; send several times"
            )
        texts = [
            {name: text.decode() for name, text in message.headers(unit)} for message, unit in given
        ]
        try:
            with self._engine.begin() as connection:
                kinds = [*[PART] * (len(given) - 1), None]
                drafts = [
                    Draft(self.destination, self.name, kind, message.value, headers)
                    for kind, (message, _), headers in zip(kinds, given, texts, strict=False)
                ]
                self._outbox.capture_many(connection, drafts)
        except MessageRefused as error:
            raise ValueError(f"it cannot wait in a store: {error}") from None
        except OperationalError as error:
            reason = f"cannot be written ({said(error)})"
            if getattr(error.orig, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL:
                reason = "is full"
            raise SendRefused(
                f"{self.path} {reason}, and nothing was taken: see whether its agent (`sequitur "
                "units forward`) reaches Kafka, or allow the store, and the disk, more bytes"
            ) from None

    # For the agent.

    @contextmanager
    def forwarding(self) -> Iterator[None]:
        """Be the only one who forwards, else raise UnitError; a killed process frees the lock."""
        place = self.path.with_name(f"{self.path.name}.{self.destination}.lock")
        descriptor = os.open(place, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise UnitError(
                    f"another agent forwards {self.path} to {self.destination!r}: one is enough"
                ) from None
            yield
        finally:
            os.close(descriptor)

    def read(self, limit: int, size: int | None = None) -> Sequence[Message]:
        """The oldest messages: as many, and so many bytes, or more where the first are sent whole;
        and no part of what is sent whole."""
        found, whole, taken, place = list[Message](), 0, 0, 0
        with self._engine.begin() as connection:
            while some := self._read(connection, AT_ONCE, place):
                for each in some:
                    found.append(each)
                    taken += len(each.content)
                    if whole and (len(found) > limit or (size is not None and taken > size)):
                        return found[:whole]
                    if each.kind != PART:
                        whole = len(found)
                if some[-1].sequence <= place:  # rows that another program wrote
                    break
                place = some[-1].sequence
        return found[:whole]

    def forget(self, messages: Iterable[Message]) -> None:
        """Delete what is forwarded."""
        with self._engine.begin() as connection:
            self._log.delete(connection, (each.id for each in messages))

    def backlog(self) -> Backlog:
        """What waits."""
        with self._engine.begin() as connection:
            last = self._log.last(connection, self.destination, self.name)
            if not (found := self._read(connection, 1)):
                return Backlog(last, 0, None)
        forwarded = found[0].sequence - 1
        return Backlog(forwarded, last - forwarded, found[0].captured_at)

    def _read(self, connection: Connection, limit: int, after: int = 0) -> tuple[Message, ...]:
        return self._log.read_stream(connection, self.destination, self.name, after, limit)

    def _named(self, connection: Connection) -> str:
        """What names this file among all that forward to the destination."""
        streams = MessageTables(NAME, None, "sqlite").streams
        chosen = select(streams.c.stream).where(streams.c.topic == self.destination)
        if (found := connection.execute(chosen).scalar()) is None:
            found = uuid4().hex
            new = streams.insert().values(topic=self.destination, stream=found, last=0)
            connection.execute(new)
        return str(found)
