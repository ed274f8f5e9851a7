"""Messages as JSON, for the way over HTTP; the content is base64."""

from base64 import b64decode, b64encode
from collections.abc import Iterable
from typing import Any

import orjson

from apps.relay.link import Missing
from stores.cursor_message import Message as Arrival
from stores.message import Message

TOKEN_BYTES = 16
"""A bearer token is at least so long."""


def encode(messages: Iterable[Message], relay: str, voids: Iterable[Missing] = ()) -> bytes:
    """The body of a request."""
    found = [
        {
            "topic": message.topic,
            "stream": message.stream,
            "sequence": message.sequence,
            "kind": message.kind,
            "content": b64encode(message.content).decode(),
            "headers": dict(message.headers),
        }
        for message in messages
    ]
    void = [[v.topic, v.stream, v.first, v.last] for v in voids]
    return orjson.dumps({"relay": relay, "messages": found, "void": void})


def decode(body: bytes, voids_at_most: int = 10_000) -> list[Arrival]:
    """The messages in a request's body, void ones too. Raises ValueError."""
    try:
        found = orjson.loads(body)
        arrivals = [_arrival(each) for each in found["messages"]]
        for topic, stream, first, last in found.get("void", []):
            if not 0 < last - first + 1 <= voids_at_most:
                raise ValueError(f"{first} to {last} is no range of void messages")
            arrivals += [
                Arrival(_text(topic), _text(stream), at, None, b"", void=True)
                for at in range(first, last + 1)
            ]
    except (orjson.JSONDecodeError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"this is no batch of messages: {error!r}") from None
    return arrivals


def _arrival(found: dict[str, Any]) -> Arrival:
    kind, sequence = found["kind"], found["sequence"]
    if isinstance(sequence, bool) or not isinstance(sequence, int):
        raise ValueError(f"the sequence {sequence!r} is no number")
    content = b64decode(found["content"], validate=True)
    headers = {_text(name): _text(value) for name, value in found["headers"].items()}
    return Arrival(
        _text(found["topic"]), _text(found["stream"]), sequence,
        None if kind is None else _text(kind), content, headers,
    )  # fmt: skip


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{value!r} is no text")
    return value
