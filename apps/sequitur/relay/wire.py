"""Messages as JSON, for the way over HTTP; the content is base64."""

from base64 import b64decode, b64encode
from collections.abc import Iterable
from typing import Any

import orjson

from sequitur.relay.link import MissingRange
from stores.message import Message
from topology.model.printable import printable

BATCH = "Sequitur-Batch"
"""The header of a request whose value its answer gives back."""
BATCH_LENGTH = 64
MESSAGES = 10_000
"""Of one request, void ones included."""


def encode(messages: Iterable[Message], relay: str, voids: Iterable[MissingRange] = ()) -> bytes:
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


def decode(body: bytes, limit: int = MESSAGES) -> list[Message]:
    """The messages in a request's body, void ones too, `limit` at most. Raises ValueError.

    Ranges of void ones are counted before any of them is expanded: a short body can name very many.
    """
    try:
        found = orjson.loads(body)
        voids = [_range(*each) for each in found.get("void", [])]
        number = len(found["messages"]) + sum(last - first + 1 for *_, first, last in voids)
        if number > limit:
            raise ValueError(f"{number} messages; {limit} are the limit of a request")
        arrivals = [_arrival(each) for each in found["messages"]]
    except (orjson.JSONDecodeError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"this is no batch of messages: {printable(repr(error))}") from None
    arrivals += [
        Message(topic, stream, at, None, b"", void=True)
        for topic, stream, first, last in voids
        for at in range(first, last + 1)
    ]
    return arrivals


def _range(topic: Any, stream: Any, first: Any, last: Any) -> tuple[str, str, int, int]:
    if not _number(first) <= _number(last):
        raise ValueError(f"{first} to {last} is no range of void messages")
    return _text(topic), _text(stream), first, last


def _arrival(found: dict[str, Any]) -> Message:
    kind, sequence = found["kind"], _number(found["sequence"])
    content = b64decode(found["content"], validate=True)
    headers = {_text(name): _text(value) for name, value in found["headers"].items()}
    return Message(
        _text(found["topic"]), _text(found["stream"]), sequence,
        None if kind is None else _text(kind), content, headers,
    )  # fmt: skip


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{printable(repr(value))} is no text")
    return value


def _number(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(f"{printable(repr(value))} is no number")
    return value
