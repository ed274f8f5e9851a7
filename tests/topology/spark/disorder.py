"""Disordered messages for the topology of `shops`, and what came of them, ready to compare."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

import orjson

from tests.topology.spark.shops import KINDS

Message = tuple[str, str, Any]
"""Topic, stream, body."""


def disorder(
    seed: int, size: int, orders: Sequence[str] = ("web", "desk"), lost: float = 0.04
) -> tuple[list[Message], list[Message]]:
    """Events of a few streams, shuffled over a short reach, some twice, some never; and rubbish.

    orders: the topics of the orders. lost: the share of those that never come, which are given
    apart. Topics are without the topology's name.
    """
    chance = Random(seed)
    last: dict[tuple[str, str], int] = defaultdict(int)
    arriving: list[tuple[float, Message]] = []
    never: list[Message] = []
    for at in range(size):
        source = chance.choice(("orders", "orders", "orders", "links", "times"))
        stream = f"s{chance.randrange(3)}"
        n = last[source, stream] = last[source, stream] + 1
        body: dict[str, Any] = {
            "id": stream,
            "n": n,
            "kind": chance.choices(KINDS, (3, 4, 2, 2, 1))[0],
        }
        topic = source
        if source == "orders":
            topic = chance.choice(orders)
        elif source == "links":
            body["after"] = n - 1
        fate = chance.random()
        if fate < lost:
            never.append((topic, stream, body))
            continue
        if fate < lost + 0.04:
            rubbish = chance.choice((b"no JSON", None, {"id": stream, "n": -3}, {"n": 1}))
            arriving.append((at, (topic, stream, rubbish)))
        late = chance.random() * 9 if fate > 0.6 else 0
        arriving.append((at + late, (topic, stream, body)))
        if chance.random() < 0.15:
            again = body if chance.random() < 0.7 else {**body, "other": 1}
            arriving.append((at + chance.random() * 12, (topic, stream, again)))
    return [message for _, message in sorted(arriving, key=lambda each: each[0])], never


def encoded(body: Any) -> bytes | None:
    """The value of a message."""
    return body if isinstance(body, bytes | None) else orjson.dumps(body)


def by_stream(records: Mapping[str, Sequence[Any]]) -> dict[str, dict[bytes | None, list[Any]]]:
    """Topic → key → (value, headers), in order."""
    found: dict[str, dict[bytes | None, list[Any]]] = {}
    for topic, sent in records.items():
        if sent:
            found[topic] = defaultdict(list)
        for record in sent:
            headers = sorted((name, value) for name, value in record.headers)
            found[topic][record.key].append((record.value, headers))
    return found
