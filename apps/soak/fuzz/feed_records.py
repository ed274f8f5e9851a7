"""Records that a feed reads: each is a message, none of the feed's concern, or among the dead."""

from typing import Any

import orjson
from hypothesis import strategies as st

from sequitur.inbox.interpret import (
    Interpret,
    Malformations,
    inspected,
    interpreted,
    output_records,
    relayed,
    voids,
)
from soak.fuzz.inbox_requests import check, drain, fresh
from soak.fuzz.mutation import bodies, changed_bytes, headers
from stores.inbox.commands import counts
from stores.inbox.inbox import Inbox, ReadRange
from stores.message import Message
from topology import Inspector, Record

_OUTPUT = {"view": "board", "stream": "A-17", "sequence": 4, "epoch": 1, "changes": []}
_SAMPLES = (
    *({**_OUTPUT, "sequence": n} for n in (1, 2, 3, -1, 2**63 - 1)),
    {"order": {"id": "A-17"}, "version": 3, "type": "Paid"},
    b"{}",
)
_NAMES = ["sequitur-sequence", "sequitur-kind", "sequitur-void", "sequitur-captured-at"]


def _broken(message: Any) -> Any:
    """An inspector as anybody may write one."""
    body = orjson.loads(message.value)
    return body["stream"], body["sequence"], body.get("kind"), 1 / body.get("changes", 1)


_INTERPRETERS: dict[str, Interpret] = {
    "relayed": relayed("orders"),
    "outputs": output_records("orders"),
    "voids": voids("orders"),
    "inspected": inspected(Inspector("order.id", "version", kind="type"), "orders"),
    "broken": inspected(_broken, "orders"),
}

SendResult = tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]]]


class FeedRecords:
    """Each kind of interpreter on some records, and an inbox that takes what comes of it."""

    name = "feed-records"

    def strategy(self) -> st.SearchStrategy[tuple[str, list[SendResult]]]:
        """Keys, values and headers of all formats, changed."""
        numbers = [b"1", b"2", b"7", b"9223372036854775807"]
        record = st.tuples(
            st.none() | st.binary(max_size=20) | changed_bytes(b"A-17"),
            bodies(_SAMPLES),
            headers(_NAMES, numbers) | st.sampled_from(numbers).map(_relayed),
        )
        return st.tuples(
            st.sampled_from(list(_INTERPRETERS)), st.lists(record, min_size=1, max_size=8)
        )

    def run(self, input: tuple[str, list[SendResult]]) -> None:
        """The offsets are past all of them, and the counts add up."""
        name, sent = input
        records = [
            Record("orders", 0, at, key, value, said)  # type: ignore[arg-type]
            for at, (key, value, said) in enumerate(sent)
        ]
        messages, malformed = list[Message](), Malformations()
        interpreted(_INTERPRETERS[name], records, messages, malformed)
        assert len(messages) + len(malformed) <= len(records)
        if name != "outputs":
            assert len(messages) + len(malformed) == len(records)
        engine = fresh(self.name)
        order: Any = "monotonic" if name == "outputs" else "contiguous"
        inbox = Inbox(engine, order=order)
        read = {("orders", 0): ReadRange(0, len(records))}
        found = inbox.receive(messages, read=read, malformed=malformed)
        check(messages, found, len(malformed))
        assert inbox.offsets() == {("orders", 0): len(records)}
        assert counts(inbox).dead == found.malformed
        drain(inbox)


def _relayed(number: bytes) -> list[tuple[str, bytes | None]]:
    return [("sequitur-sequence", number), ("sequitur-kind", None)]
