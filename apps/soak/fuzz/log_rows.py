"""Rows of a message log, whatever is in them: each is read, and sent, or refused with a reason."""

from typing import Any

from hypothesis import strategies as st
from sqlalchemy import text
from sqlalchemy.exc import IntegrityError

from sequitur.relay.records import headers_of
from sequitur.relay.refusals import divided
from sequitur.relay.wire import decode, encode
from soak.fuzz.inbox_requests import fresh
from stores.db.data_errors import OF_DATA
from stores.message import Message
from stores.outbox.any_text import any_text
from stores.outbox.capture import Outbox
from stores.outbox.log import MessageLog
from stores.outbox.message import START, Draft, damage

_COLUMNS = ("topic", "stream", "sequence", "kind", "content", "headers", "captured_at")
COLUMN_VALUES: st.SearchStrategy[Any] = (
    st.integers(-(2**63), 2**63 - 1)
    | st.floats()
    | st.binary(max_size=10)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=10)
    | st.sampled_from(['{"a": 1}', "{}", "[]", '{"a": "b"}', "{", "", "\0", "a" * 2000])
)
Change = tuple[int, str, Any, bool]
"""Which row, which column, the value, and whether its bytes are to be a text."""


class LogRows:
    """A log of a few messages, of which some columns were changed by hand."""

    name = "log-rows"

    def strategy(self) -> st.SearchStrategy[list[Change]]:
        """Up to four changes; SQLite takes any value in any column."""
        change = st.tuples(
            st.integers(1, 6), st.sampled_from(_COLUMNS), COLUMN_VALUES, st.booleans()
        )
        return st.lists(change, max_size=4)

    def run(self, input: list[Change]) -> None:
        """All rows are read; those of a stream that is stuck wait; others are sent."""
        engine, log = fresh(self.name), MessageLog()
        log.create(engine)
        with engine.begin() as connection:
            drafts = [Draft("orders", s, "Ok", b"x", {"h": "v"}) for s in "aabbcc"]
            Outbox(log).capture_many(connection, drafts)
            connection.execute(text("PRAGMA ignore_check_constraints = 1"))
            for row, column, value, as_text in input:
                given = "CAST(:value AS TEXT)" if as_text else ":value"
                sql = f"UPDATE OR IGNORE sequitur_messages SET {column} = {given}"
                try:
                    connection.execute(text(f"{sql} WHERE id = :id"), {"value": value, "id": row})
                except (IntegrityError, *OF_DATA):  # NULL, as NaN is; it is not there then
                    continue
        with engine.connect() as connection, any_text(connection):
            found = self._read(log, connection)
        assert [message.id for message in found] == [1, 2, 3, 4, 5, 6]
        good, bad, _ = divided(found, lambda message: message.damage)
        try:
            _send(good)
        except Exception:
            good, more, reason = divided(good, damage)
            assert more, "what fails has to be found"
            assert reason
            bad += more
            _send(good)
        stuck = {(message.topic, message.stream) for message in bad}
        changed = {row for row, *_ in input}
        for message in bad:
            assert message.id in changed or (message.topic, message.stream) in stuck

    def _read(self, log: MessageLog, connection: Any) -> list[Message]:
        found: list[Message] = []
        position = START
        while (page := log.read_after(connection, position, 2)).messages:
            found += page.messages
            position = page.position
        return found


def _send(messages: list[Message]) -> None:
    """As both links do."""
    decode(encode(messages, "fuzz"))
    for message in messages:
        message.stream.encode()
        headers_of(message)
