"""What is posted to an inbox: it is refused as a whole, or each of its messages is counted once."""

from functools import cache
from typing import Any

import orjson
from hypothesis import strategies as st
from sqlalchemy import Engine, create_engine, inspect, text
from sqlalchemy.pool import StaticPool

from sequitur.relay.wire import MESSAGES, decode
from soak.fuzz.mutation import bodies
from stores.inbox.commands import counts, gaps
from stores.inbox.inbox import Inbox
from stores.inbox.message import ReceiveResult
from stores.message import Message


def _message(sequence: int, stream: str = "A-17", **more: Any) -> dict[str, Any]:
    return {
        "topic": "orders",
        "stream": stream,
        "sequence": sequence,
        "kind": "Placed",
        "content": "e30=",
        "headers": {"trace": "1"},
        **more,
    }


_SAMPLES = (
    {"relay": "r", "messages": [_message(1), _message(2)], "void": []},
    {"relay": "r", "messages": [_message(3), _message(2**63 - 1)], "void": []},
    {"relay": "r", "messages": [], "void": [["orders", "A-17", 1, 4], ["orders", "B", 2, 2]]},
    {"relay": "r", "messages": [_message(5, "B", kind=None)], "void": [["orders", "B", 1, 9]]},
)


@cache
def _engine(of: str) -> Engine:
    return create_engine(
        "sqlite://", poolclass=StaticPool, connect_args={"check_same_thread": False}
    )


def fresh(of: str) -> Engine:
    """A boundary's database in memory, whose tables are empty; to make one anew takes long."""
    engine = _engine(of)
    with engine.begin() as connection:
        driver: Any = connection.connection.driver_connection
        driver.text_factory = str
        for table in inspect(connection).get_table_names():
            if not table.endswith("_layout"):
                connection.execute(text(f'DELETE FROM "{table}"'))
        if driver.execute("SELECT 1 FROM sqlite_master WHERE name = 'sqlite_sequence'").fetchone():
            connection.execute(text("DELETE FROM sqlite_sequence"))
    return engine


def check(messages: list[Message], found: ReceiveResult, malformed: int = 0) -> None:
    """Each message that was received is in one place."""
    told = found.stored + found.duplicates + found.malformed + len(found.refused)
    assert told == len(messages) + malformed, (found, len(messages), malformed)


def drain(inbox: Inbox) -> None:
    """Deliver what is due, and ask what an operator may."""
    last: dict[tuple[str, str], tuple[int, int]] = {}
    with inbox.engine.connect() as connection:
        while True:
            with inbox.batch(connection, 100) as messages:
                for each in messages:
                    at = each.epoch, each.sequence
                    assert last.get((each.topic, each.stream), (-1, -(2**63))) < at
                    last[each.topic, each.stream] = at
            if not messages:
                break
    for gap in gaps(inbox):
        assert gap.first <= gap.last
    known = counts(inbox)
    assert known.messages == known.behind_gaps, known


class InboxRequests:
    """Some requests to one inbox, with a small `max_gap`."""

    name = "inbox-requests"

    def strategy(self) -> st.SearchStrategy[list[bytes]]:
        """Bodies of requests, changed."""
        body = bodies(_SAMPLES).map(lambda found: found or b"")
        return st.lists(body, min_size=1, max_size=4)

    def run(self, input: list[bytes]) -> None:
        """A body is no batch, which is told with 400, or all of it is accounted for."""
        inbox = Inbox(fresh(self.name), max_gap=100)
        dead, refused = 0, [""]
        for body in input:
            try:
                arrived = decode(body)
            except ValueError as error:
                refused.append(str(error))
                continue
            assert len(arrived) <= MESSAGES
            found = inbox.receive(arrived)
            check(arrived, found)
            dead += found.malformed
            orjson.dumps([[m.topic, m.stream, m.sequence] for m in found.refused])
        assert max(map(len, refused)) < 1000
        assert counts(inbox).dead == dead
        drain(inbox)
