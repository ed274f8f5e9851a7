"""What becomes of a view's messages on the paths that its verbs declare."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import orjson

from topology.declaration.message_path import MessagePath
from topology.model.change_json import OPTIONS, TEXT_KEYS, alike_keys
from topology.model.changes import Emit, check_finite, check_message, text_bytes
from topology.model.errors import HandlerError, Malformed
from topology.model.event import Event, Record
from topology.model.origin_headers import ORIGIN, origin
from topology.model.unwritable import unwritable
from topology.routing.transformations import run


def follow(
    paths: Sequence[MessagePath], event: Event, items: Iterable[Any], unrouted: list[Event]
) -> Iterator[Any]:
    """What an event's handler yields, with what its messages have become in their place.

    unrouted: is given the event for each message without a destination. Raises HandlerError where a
    message cannot be routed or transformed: the event fails.
    """
    for item in items:
        if item.__class__ is not Emit:
            yield item
            continue
        check_message(item)
        taken = [path for path in paths if path.takes(item.topic)]
        if not taken:
            yield item
            continue
        message = _message(event, item)
        for path in taken:
            try:
                made = _made(path, item, message, origin(event.message))
            except Malformed as error:
                raise HandlerError(f"a message for topic {item.topic!r}: {error}") from None
            if not made:
                unrouted.append(event)
            yield from made


def _message(event: Event, item: Emit) -> Record:
    """A message as rules and transformations see it: sent now, from where its event came."""
    key, value, place = item.key, item.value, event.message
    if isinstance(key, str):
        key = text_bytes(f"Emit(topic={item.topic!r})", "the key", key)
    if value is not None and value.__class__ is not bytes:
        value = as_json(item)
    partition, offset, time = place.partition, place.offset, place.timestamp
    return Record(item.topic, partition, offset, key, value, item.headers, time)


def _made(path: MessagePath, item: Emit, message: Record, place: bytes) -> list[Emit]:
    """What a message has become. Raises Malformed."""
    value = message.value
    for step in path.before:
        value = run(step, value, message)
    if path.rules is None:
        return [Emit(path.to[""], item.key, value, item.headers)]
    message = replace(message, value=value)  # another path has it as it was
    routing = path.rules.route(message)
    if routing.reason is not None:
        raise Malformed(str(path.rules.route(message, "all")))
    headers = [*item.headers, (ORIGIN, place), routing.header]
    found: list[Emit] = []
    for each in path.rules.make(routing):
        value = each.content
        for step in path.after:
            value = run(step, value, message)
        found.append(Emit(path.to[each.destination], item.key, value, headers))
    return found


def as_json(item: Emit) -> bytes:
    """The value of a message that is not bytes. Raises HandlerError."""
    try:
        written = orjson.dumps(item.value, option=TEXT_KEYS)
    except TypeError:
        written = _otherwise(item)
    if b"null" in written:
        check_finite(f"Emit(topic={item.topic!r})", item.value)
    return written


def _otherwise(item: Emit) -> bytes:
    """A message's value where not all keys are texts. Raises HandlerError where it has no JSON."""
    what = f"Emit(topic={item.topic!r})"
    try:
        written = _dumps(item.value)
    except TypeError:
        told = unwritable(item.value, _dumps)
        raise HandlerError(f"{what}: {told}; or give bytes of your own") from None
    if (found := alike_keys(item.value, OPTIONS)) is not None:
        raise HandlerError(f"{what}: {found}; name each by a text of its own")
    return written


def _dumps(value: Any) -> bytes:
    return orjson.dumps(value, option=OPTIONS)
