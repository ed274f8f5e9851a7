"""Of which headers of a queue's message its id is made: what two messages share is no id."""

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stores.segments import InboundMessage
from stores.segments.identity import Known, identify
from stores.segments.transports.rabbitmq import RabbitInbound, RabbitLogin

INBOUND = RabbitInbound("queue", RabbitLogin("amqp://127.0.0.1/"))


def message(headers: dict[str, Any], tag: int = 1) -> InboundMessage:
    given = SimpleNamespace(
        delivery_tag=tag, headers=headers, body=b"", message_id=None, redelivered=False
    )
    found = INBOUND._message(given)  # type: ignore[arg-type]
    assert found is not None
    return found


def named(stream: Any, sequence: Any) -> dict[str, Any]:
    return {"sequitur-stream": stream, "sequitur-sequence": sequence}


@pytest.mark.parametrize(
    "headers",
    [
        named(None, 1), named(b"\xff", 1), named("a", "1_0"), named("a", "\u0661"), named("a", 1.5),
        named("a", True), named("a", 2**63), named("a", "-9223372036854775809"),
        named({"a": 1}, 1), named("a", [1, None]), named("a", []),
        {"sequitur-id": None}, {"sequitur-id": b"\xff"},
    ],
)  # fmt: skip
def test_a_header_that_says_nothing_makes_no_id(headers: dict[str, Any]) -> None:
    assert identify(message(headers), "here", window=60).known == Known.NOT


@given(st.text(), st.integers(-(10**18), 10**18))
def test_an_id_is_the_same_however_a_client_writes_it(stream: str, sequence: int) -> None:
    ids = {
        identify(message(named(s, n)), "here").id
        for s in (stream, stream.encode(), [b"other", stream])
        for n in (sequence, str(sequence), str(sequence).encode())
    }
    assert len(ids) == 1


_VALUES = st.one_of(st.none(), st.text(max_size=2), st.binary(max_size=2), st.integers(0, 11))


@given(_VALUES, _VALUES, _VALUES, _VALUES)
def test_two_messages_that_differ_are_not_one(a: Any, m: Any, b: Any, n: Any) -> None:
    one, two = (identify(message(named(*each)), "here") for each in ((a, m), (b, n)))
    if one.id == two.id:
        assert one.known == Known.STREAM
        assert [_bytes(a), _bytes(m)] == [_bytes(b), _bytes(n)]


def _bytes(value: Any) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode()
