"""What a feed makes of records."""

from pathlib import Path
from typing import Any

import orjson
import pytest

from apps.cursor.interpret import inspected, output_records
from stores.cursor import Cursor
from stores.engines import open_engine
from tests.contracts.cursor.parts import done, make_table, write
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


def test_a_cursor_is_the_sink_of_an_output_topic(tmp_path: Path) -> None:
    engine = open_engine(f"sqlite:///{tmp_path}/sink.sqlite")
    make_table(engine)
    cursor, interpret = Cursor(engine, "board", order="growing"), output_records("shop.board")

    def receive(*places: tuple[int, int]) -> int:
        records = [
            orjson.dumps({"stream": "a", "sequence": sequence, "epoch": epoch, "changes": []})
            for epoch, sequence in places
        ]
        found = [interpret(record(each)) for each in records]
        return cursor.receive(each for each in found if each is not None).stored

    # Not each event changes a row; a crash of a worker lets some come again.
    assert receive((0, 2), (0, 5), (0, 2), (0, 5), (0, 9)) == 3
    with engine.connect() as connection:
        for sequence in (2, 5, 9):
            with cursor.delivery(connection) as message:
                assert message is not None
                assert message.sequence == sequence
                write(connection, message)
    # The stream is built anew.
    assert receive((1, 1), (0, 10), (1, 3)) == 2
    assert done(engine) == ["a2", "a5", "a9"]
    engine.dispose()
