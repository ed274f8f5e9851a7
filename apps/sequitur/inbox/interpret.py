"""What messages a feed makes of a topic's records."""

from collections.abc import Callable, Iterable
from typing import Any

import orjson

from stores.inbox.message import mistyped
from stores.message import Message
from topology.inspectors.inspector import AnyInspector, Inspect, compile_inspector, kind_text
from topology.inspectors.normalise import sequence_number
from topology.model.errors import Malformed, described
from topology.model.event import Damaged
from topology.model.printable import printable

Interpret = Callable[[Any], Message | None]
"""A record → the message in it, None for what is none. Raises Malformed."""

Malformations = list[tuple[str, bytes | None]]
"""(reason, value) of records that are no messages."""


def interpreted(
    interpret: Interpret, records: Iterable[Any], messages: list[Message], malformed: Malformations
) -> None:
    """Add each record to one of the two, but for those that are none of the feed's concern.

    Whatever an interpreter raises is the record's fault: an inspector may be anybody's.
    """
    for record in records:
        try:
            if isinstance(record, Damaged):
                raise Malformed(record.reason)
            message = interpret(record)
            if message is not None and (reason := mistyped(message)) is not None:
                raise Malformed(reason)
        except Malformed as error:
            malformed.append((_told(record, printable(error, 1000)), record.value))
        except BaseException as error:
            # It is called in no task of its own: what ends a task or process is not meant for one.
            what = f"the interpreter failed with {described(error)}"
            malformed.append((_told(record, printable(what, 1000)), record.value))
        else:
            if message is not None:
                messages.append(message)


def _told(record: Any, reason: str) -> str:
    return f"{record.topic}/{record.partition} offset {record.offset}: {reason}"


def inspected(inspector: AnyInspector, topic: str) -> Interpret:
    """Messages of a topic, as an inspector of events finds them."""
    inspect: Inspect = compile_inspector(inspector)

    def interpret(record: Any) -> Message | None:
        found = inspect(record)
        if found is None:
            return None
        stream, sequence, kind, _ = found
        return _message(topic, stream, sequence, kind, record)

    return interpret


def relayed(topic: str) -> Interpret:
    """Messages of a topic that a relay fills; their streams are the keys as they are.

    Earlier relays left the header of no kind out.
    """

    def interpret(record: Any) -> Message | None:
        given = dict(record.headers)
        if "sequitur-sequence" not in given:
            raise Malformed("the sequence is missing: no header 'sequitur-sequence'")
        if record.key is None:
            raise Malformed("the stream is missing: the record has no key")
        try:
            stream = record.key.decode()
        except UnicodeDecodeError:
            raise Malformed("the stream is not UTF-8") from None
        sequence = sequence_number(given["sequitur-sequence"])
        return _message(topic, stream, sequence, kind_text(given.get("sequitur-kind")), record)

    return interpret


def _message(topic: str, stream: str, sequence: int, kind: str | None, record: Any) -> Message:
    void = any(name == "sequitur-void" for name, _ in record.headers)
    # A header may have no value, and any bytes for one.
    headers = {name: (value or b"").decode("utf-8", "replace") for name, value in record.headers}
    return Message(topic, stream, sequence, kind, record.value or b"", headers, void=void)


def output_records(topic: str) -> Interpret:
    """The records of a view's output topic; the content is the record as it is.

    Its inbox has to be of the order 'monotonic'.
    """

    def interpret(record: Any) -> Message | None:
        if record.value is None:
            raise Malformed("this is no output record: it has no value")
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
