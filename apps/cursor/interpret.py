"""What messages a feed makes of a topic's records."""

from collections.abc import Callable
from typing import Any

import orjson

from stores.cursor_message import Message
from topology.errors import Malformed
from topology.inspector import AnyInspector, Inspect, compile_inspector

Interpret = Callable[[Any], Message | None]
"""A record → the message in it, None for what is none. Raises Malformed."""


def inspected(inspector: AnyInspector, topic: str) -> Interpret:
    """Messages of a topic, as an inspector of events finds them."""
    inspect: Inspect = compile_inspector(inspector)

    def interpret(record: Any) -> Message | None:
        found = inspect(record)
        if found is None:
            return None
        stream, sequence, kind, _ = found
        void = any(name == "sequitur-void" for name, _ in record.headers)
        headers = {name: value.decode("utf-8", "replace") for name, value in record.headers}
        return Message(topic, stream, sequence, kind, record.value or b"", headers, void=void)

    return interpret


def output_records(topic: str) -> Interpret:
    """The records of a view's output topic; the content is the record as it is.

    Its cursor has to be of the order 'growing'.
    """

    def interpret(record: Any) -> Message | None:
        if record.value is None:
            return None
        try:
            body = orjson.loads(record.value)
            epoch, sequence, stream = body.get("epoch", 0), body["sequence"], body["stream"]
        except (orjson.JSONDecodeError, KeyError, AttributeError) as error:
            raise Malformed(f"this is no output record: {error!r}") from None
        for what in (epoch, sequence):
            if isinstance(what, bool) or not isinstance(what, int):
                raise Malformed(f"this is no output record: {what!r} is no number")
        if not isinstance(stream, str):
            raise Malformed("this is no output record: its stream is no text")
        return Message(topic, stream, sequence, None, record.value, epoch=epoch)

    return interpret


def voids(topic: str) -> Interpret:
    """Of the topic in which the relay says what is void."""

    def interpret(record: Any) -> Message | None:
        given = dict(record.headers)
        try:
            sequence, stream = int(given["sequitur-sequence"]), (record.key or b"").decode()
        except (KeyError, ValueError) as error:
            raise Malformed(f"this says of no message that it is void: {error!r}") from None
        return Message(topic, stream, sequence, None, b"", void=True)

    return interpret
