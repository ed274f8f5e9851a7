"""The same flights in twenty orders of arrival at once, and what a table of each comes to.

Each order has streams and keys of its own: `7-N1` is aircraft N1 in order 7.
"""

import os
from collections import defaultdict
from collections.abc import Iterable
from hashlib import blake2b
from random import Random
from typing import Any

import orjson

from topology import Inspector, Topology
from topology.verbs import count, events, mean, session, total, tumbling

ORDERS = 20
DAY = 86_400
Body = dict[str, Any]
IN_VIEWS = ("departures", "days", "long_days", "days_long", "legs")
"""Tables without a hop."""
OVER_HOPS = ("hours", "slow", "slow_hours")


def flights(name: str, *, hops: bool) -> Topology:
    """The verbs that are compared. hops: with those that need a topic between views."""
    graph = Topology(name)
    source = graph.source(
        f"{name}.in", inspector=Inspector("tail", "number"), partitions=2, name="in"
    )
    moves = events(graph, source, time=lambda move: move["time"])
    out = moves.filter(lambda move: move["kind"] == "OUT")
    out.to_rows("departures", name="departures", columns={"delay": lambda move: move["delay"] * 2})
    by_day = moves.each().window(tumbling(DAY), keep=DAY)
    days = by_day.fold(mean(lambda move: move["delay"]), name="days").to_rows("days")
    long = days.filter(lambda row: (row.value or 0) > 0.5)
    long.map(lambda row: row.value or 0.0).to_rows("long_days", {"twice": lambda value: value * 2})
    long.fold(count(), name="days_long").to_rows("days_long")
    legs = out.each().window(session(7_200), keep=DAY)
    legs.fold(total(lambda move: move["delay"]), name="legs").to_rows("legs")
    if hops:
        hours = out.by(lambda move: move["origin"]).window(tumbling(3_600))
        found = hours.fold(mean(lambda move: move["delay"]), name="hours").to_rows("hours")
        slow = found.filter(lambda row: (row.value or 0) > 0.5)
        slow.by(lambda row: row.key[:-1]).fold(count(), name="slow").to_rows("slow")
        slow.fold(total(lambda row: row.value or 0.0), name="slow_hours").to_rows("slow_hours")
    return graph


topology = flights(os.environ.get("PREFIX", "flights"), hops=False)
"""The one that Spark runs."""


def arriving(seed: int = 7) -> list[Body]:
    """All orders' events as they arrive, with copies; one order after the other has some."""
    chance = Random(seed)
    moves = [
        {
            "tail": f"N{tail}", "number": number, "kind": chance.choice(("OUT", "OUT", "IN")),
            "origin": chance.choice(("JFK", "LGA", "EWR")), "time": chance.randrange(3 * DAY),
            "delay": chance.choice((0.1, 0.2, 1e16, -1e16, 0.7, 3)),
        }
        for tail in range(4) for number in range(1, 13)
    ]  # fmt: skip
    found: list[Body] = []
    for order in range(ORDERS):
        mine = moves + chance.sample(moves, 5)
        chance.shuffle(mine)
        found += [
            each | {"tail": f"{order}-{each['tail']}", "origin": f"{order}-{each['origin']}"}
            for each in mine
        ]
    return found


def tables_of(records: Iterable[bytes | None], names: Iterable[str]) -> dict[str, set[str]]:
    """Table → the hashes of its rows in all orders, from the records of output topics."""
    rows: dict[tuple[str, str], dict[str, Any]] = defaultdict(dict)
    for value in records:
        for change in orjson.loads(value or b"")["changes"]:
            key = dict(change["key"])
            name = "stream" if "stream" in key else "key"
            order, _, key[name] = key[name].partition("-")
            at = orjson.dumps(key, option=orjson.OPT_SORT_KEYS).decode()
            table = rows[change["table"], order]
            if change["op"] == "delete":
                table.pop(at, None)
            else:
                table[at] = table.get(at, {}) | change["values"]
    found: dict[str, set[str]] = {name: set() for name in names}
    for name, hashes in found.items():
        for order in map(str, range(ORDERS)):
            assert rows[name, order], f"table {name} has no rows in order {order}"
            text = orjson.dumps(sorted(rows[name, order].items()), option=orjson.OPT_SORT_KEYS)
            hashes.add(blake2b(text, digest_size=8).hexdigest())
    return found
