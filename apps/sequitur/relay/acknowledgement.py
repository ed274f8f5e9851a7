"""What an HTTP answer has to say to be an acknowledgement; anything else is none.

A page of a proxy, a login form, another service's {"status": "ok"}: all of them may come with 200.
So an answer names the batch that it is about, and accounts for each of its messages.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from sequitur.relay.link import MissingRange, checked_missing
from stores.message import Message
from topology.model.printable import printable

ANSWER_BYTES = 8 << 20
"""The longest answer: it names each refused message of a batch."""
MISSING = 1_000
"""Gaps that one answer may name."""

Identity = tuple[str, str, int]
"""Topic, stream and sequence."""


@dataclass(frozen=True, slots=True)
class Acknowledgement:
    """refused: which messages were not taken; all others were. missing: what the inbox misses."""

    refused: frozenset[Identity]
    missing: list[MissingRange]


def acknowledgement(
    answer: bytes, batch: str, messages: Sequence[Message], voids: int = 0
) -> Acknowledgement:
    """The acknowledgement of a batch of messages and `voids` void ones. Raises ValueError."""
    try:
        found = orjson.loads(answer)
    except orjson.JSONDecodeError as error:
        raise ValueError(f"it is no JSON: {error}") from None
    if not isinstance(found, dict):
        raise ValueError("it is no JSON object")
    if found.get("batch") != batch:
        raise ValueError(
            f"it is about batch {printable(repr(found.get('batch')))}, not about this one; "
            "is this the URL of an inbox, and the inbox as new as the relay?"
        )
    refused = Counter(_identity(each) for each in _list(found, "refused"))
    if not refused <= Counter((m.topic, m.stream, m.sequence) for m in messages):
        raise ValueError("it refuses messages that the batch does not have")
    counted = sum(_count(found, name) for name in ("stored", "duplicates", "malformed"))
    told, sent = counted + refused.total(), len(messages) + voids
    if told != sent:
        raise ValueError(f"it accounts for {told} messages of {sent}")
    missing = _list(found, "missing")
    if len(missing) > MISSING:
        raise ValueError(f"it names {len(missing)} gaps; {MISSING} are the limit")
    return Acknowledgement(frozenset(refused), [_missing(each) for each in missing])


def _list(found: dict[str, Any], name: str) -> list[Any]:
    given = found.get(name)
    if not isinstance(given, list):
        raise ValueError(f"its {name!r} is no list")
    return given


def _count(found: dict[str, Any], name: str) -> int:
    given = found.get(name)
    if isinstance(given, bool) or not isinstance(given, int) or given < 0:
        raise ValueError(f"its {name!r} is no count")
    return given


def _identity(given: Any) -> Identity:
    match given:
        case [str(topic), str(stream), int(sequence)] if not isinstance(sequence, bool):
            return topic, stream, sequence
    raise ValueError("what it refuses is not named by topic, stream and sequence")


def _missing(given: Any) -> MissingRange:
    if not isinstance(given, list) or len(given) != 4:
        raise ValueError("what it misses is not named by topic, stream, first and last sequence")
    return checked_missing(*given)
