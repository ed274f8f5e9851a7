"""What the parts of the suite share."""

from collections.abc import Iterable

import pytest
from sqlalchemy import Connection, Engine

from stores.message import Message
from stores.outbox.capture import Outbox
from stores.outbox.log import MessageLog
from stores.outbox.message import START, Draft


class OnEngine:
    """The fixture `engine` is of a new, empty database; db is the same."""

    db: Engine
    log: MessageLog
    outbox: Outbox

    @pytest.fixture(autouse=True)
    def _log(self, engine: Engine) -> None:
        self.db = engine
        self.log = MessageLog()
        self.log.create(engine)
        self.outbox = Outbox(self.log, notify=False)

    def fill(self, streams: Iterable[str], topic: str = "orders") -> list[int]:
        """Append a message to each, in one transaction; returns the sequences."""
        with self.db.begin() as connection:
            return self.outbox.capture_many(
                connection, [draft(stream, topic) for stream in streams]
            )

    def messages(self, limit: int = 1000) -> list[Message]:
        """All that is in the log, page by page."""
        with self.db.connect() as connection:
            return read_on(self.log, connection, limit)


def read_on(log: MessageLog, connection: Connection, limit: int = 1000) -> list[Message]:
    found: list[Message] = []
    page = log.read_after(connection, START, limit)
    while page.messages:
        assert len(page.messages) <= limit
        found += page.messages
        page = log.read_after(connection, page.position, limit)
    return found


def draft(stream: str, topic: str = "orders") -> Draft:
    return Draft(topic, stream, "Placed", {"of": stream})


def places(messages: Iterable[Message]) -> list[tuple[str, int]]:
    """(stream, sequence) of each."""
    return [(message.stream, message.sequence) for message in messages]
