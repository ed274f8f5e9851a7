"""What a feed makes of records."""

from typing import Any

import orjson
import pytest

from apps.cursor.feed import inspected, output_records
from topology.errors import Malformed
from topology.event import Record
from topology.fields import key
from topology.inspectors import Headers


def record(value: bytes | None, headers: Any = (), of: bytes | None = b"A-17") -> Record:
    return Record("orders", 0, 5, of, value, headers)


def test_a_relay_s_record_is_the_message_that_was_captured() -> None:
    interpret = inspected(Headers(key(), "sequitur-sequence", "sequitur-kind"), "orders")
    headers = [("sequitur-sequence", b"3"), ("sequitur-kind", b"Placed"), ("trace", b"t1")]
    message = interpret(record(b"body", headers))
    assert message is not None
    assert (message.topic, message.stream, message.sequence) == ("orders", "A-17", 3)
    assert (message.kind, message.content, message.void) == ("Placed", b"body", False)
    assert message.headers["trace"] == "t1"
    with pytest.raises(Malformed):
        interpret(record(b"body"))


def test_an_output_record_is_ordered_by_epoch_and_sequence() -> None:
    interpret = output_records("shop.board")
    body = {"view": "board", "stream": "A-17", "sequence": 4, "changes": []}
    first = interpret(record(orjson.dumps(body)))
    again = interpret(record(orjson.dumps({**body, "epoch": 2})))
    assert first is not None
    assert again is not None
    assert (first.stream, first.sequence, first.epoch) == ("A-17", 4, 0)
    assert again.epoch == 2
    assert again.content == orjson.dumps({**body, "epoch": 2})
    assert interpret(record(None)) is None
    for wrong in (b"", b"[]", b"{}", orjson.dumps({**body, "sequence": "4"})):
        with pytest.raises(Malformed, match="no output record"):
            interpret(record(wrong))
