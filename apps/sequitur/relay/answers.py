"""Answers to those who miss messages: what the log knows of the sequences that they ask for."""

import logging
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from uuid import UUID

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import SQLAlchemyError

from sequitur.relay.link import MissingRange
from stores.db.data_errors import OF_DATA, is_of_data
from stores.message import Message
from stores.outbox import MessageLog
from stores.outbox.retention import RetentionStore
from topology.model.printable import printable

logger = logging.getLogger(__name__)

ASKED = 1_000
"""Requests that wait; what comes beyond is asked for again."""
RANGE = 1_000
"""Sequences of a request that are looked at; the rest is asked for again."""
AT_ONCE = 8_000
BYTES_AT_ONCE = 16 << 20
"""Messages and void ones, and bytes of contents, that one look finds; the rest waits for the next,
or is asked for again."""


@dataclass(slots=True)
class Known:
    """messages: to be sent again. voids: ranges that never come."""

    messages: list[Message] = field(default_factory=list)
    voids: list[tuple[int, int]] = field(default_factory=list)


class Answering:
    """What was asked, and what is known of it.

    What the log still has is on its way and needs no answer. What is neither there, nor kept, nor
    void, was acknowledged once: there is no proof that it never comes, so there is no answer.
    """

    def __init__(self, engine: Engine, log: MessageLog, kept: RetentionStore | None) -> None:
        self._engine, self._log, self._kept = engine, log, kept
        self.asked: deque[MissingRange] = deque()

    def ask(self, missing: Sequence[MissingRange]) -> None:
        for each in missing:
            if len(self.asked) < ASKED and each not in self.asked:
                self.asked.append(each)

    def look(self) -> list[tuple[MissingRange, Known]]:
        """Answer what was asked, as much as may be found at once.

        Raises SQLAlchemyError where the database is away, and then it is still asked.
        """
        found: list[tuple[MissingRange, Known]] = []
        number, room = 0, BYTES_AT_ONCE
        for each in list(self.asked):
            if number >= AT_ONCE or room <= 0:
                break
            try:
                with self._engine.connect() as connection:
                    known = self._known(connection, each, room)
            except (SQLAlchemyError, *OF_DATA) as error:
                if not is_of_data(error):
                    raise
                # A request that no database can look up; asked again it would be no better.
                logger.warning(
                    "the log cannot be read for what is asked of topic %s, stream %s: %s",
                    printable(each.topic), printable(each.stream), printable(repr(error)),
                )  # fmt: skip
                known = Known()
            found.append((each, known))
            number += len(known.messages) + sum(b - a + 1 for a, b in known.voids)
            room -= sum(len(message.content) for message in known.messages)
        for _ in found:
            self.asked.popleft()
        return found

    def _known(self, connection: Connection, asked: MissingRange, room: int) -> Known:
        known, last = Known(), min(asked.last, asked.first + RANGE - 1)
        topic = asked.topic
        stream = next(
            (each for each in _written(asked.stream) if self._log.last(connection, topic, each)),
            asked.stream,
        )
        for part in self._log.known(connection, topic, stream, asked.first, last):
            if part.state == "void":
                known.voids.append((part.first, part.last))
            elif part.state == "gone" and self._kept is not None and room > 0:
                some = self._kept.read(connection, topic, stream, part.first, part.last, room)
                known.messages += some
                room -= sum(len(message.content) for message in some)
        return known


def _written(stream: str) -> list[str]:
    """A stream as a view asks for it, and as its producer may have written it.

    A source's inspector folds a GUID's braces, prefix and capital letters; the log has them.
    """
    try:
        known = str(UUID(stream))
    except ValueError:
        return [stream]
    if known != stream:
        return [stream]
    capital = stream.upper()
    prefixed = [f"urn:uuid:{stream}", f"urn:uuid:{capital}"]
    return [stream, capital, f"{{{stream}}}", f"{{{capital}}}", *prefixed]
