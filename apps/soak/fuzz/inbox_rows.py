"""Rows of an inbox, whatever is in them: each is delivered, or its stream is parked."""

from typing import Any

from hypothesis import strategies as st
from sqlalchemy import text

from soak.fuzz.inbox_requests import fresh
from soak.fuzz.log_rows import COLUMN_VALUES
from stores.inbox.commands import counts, parked, redrive, unpark
from stores.inbox.inbox import Inbox
from stores.message import Message

_STREAMS = "abc"
_NUMBER = 3
Change = tuple[str, int, str, Any]
"""Stream, sequence, column and value."""


class InboxRows:
    """Three streams of three messages, of which some columns were changed by hand."""

    name = "inbox-rows"

    def strategy(self) -> st.SearchStrategy[tuple[int, list[Change]]]:
        """Up to three changes, and how many messages are delivered at a time."""
        columns = st.sampled_from(["kind", "content", "headers", "void"])
        change = st.tuples(
            st.sampled_from(_STREAMS), st.integers(1, _NUMBER), columns, COLUMN_VALUES
        )
        return st.tuples(st.integers(1, 10), st.lists(change, max_size=3))

    def run(self, input: tuple[int, list[Change]]) -> None:
        """What was changed is not in the way of other streams, which are delivered in order."""
        batch, changes = input
        inbox = Inbox(fresh(self.name))
        inbox.receive(
            Message("t", stream, at, "Ok", b"x", {"h": "v"})
            for stream in _STREAMS
            for at in range(1, _NUMBER + 1)
        )
        with inbox.engine.begin() as connection:
            for stream, at, column, value in changes:
                of = "(SELECT id FROM sequitur_inbox_streams WHERE stream = :stream)"
                sql = f"UPDATE OR IGNORE sequitur_inbox_messages SET {column} = :value"
                values = {"value": value, "stream": stream, "at": at}
                connection.execute(text(f"{sql} WHERE stream_id = {of} AND sequence = :at"), values)
        came = _deliver(inbox, batch)
        stuck = {each.stream for each in parked(inbox)}
        changed = {stream for stream, *_ in changes}
        assert stuck <= changed
        for stream in set(_STREAMS) - changed:
            assert [at for of, at in came if of == stream] == list(range(1, _NUMBER + 1))
        # An operator can try it again, and can go on without it; each time it is counted.
        while found := parked(inbox):
            redrive(inbox, "t", found[0].stream)
            came += _deliver(inbox, batch)
            assert unpark(inbox, "t", found[0].stream) == found[0].sequence
            came += _deliver(inbox, batch)
        known = counts(inbox)
        assert known.messages == 0, known
        void = len(_STREAMS) * _NUMBER - len(came) - known.dead
        assert 0 <= void <= len(changes)
        assert sorted(came) == sorted(set(came))


def _deliver(inbox: Inbox, batch: int) -> list[tuple[str, int]]:
    came: list[tuple[str, int]] = []
    with inbox.engine.connect() as connection:
        while True:
            with inbox.batch(connection, batch) as messages:
                came += [(each.stream, each.sequence) for each in messages]
            if not messages:
                return came
