"""The tables of a lookup, by plain rules, and the topology that makes them."""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import Any

from topology import Inspector, Topology, TopologyTestDriver
from topology.verbs import AsOf, Latest, Rows, as_of_time, count, events

Body = dict[str, Any]
Row = tuple[int | None, int, bool]
"""The wind, how much is missing, and whether the row is final."""
KEEP, WAIT = 86_400, 60


def flights(
    at: AsOf[Any] | None = None, left: Any = None, right: Any = None, partitions: int = 1
) -> Topology:
    """Departures with the wind at their airport, and how many had much of it. left, right: options
    of the views that take the sides."""
    graph = Topology("flights")
    flown, _ = looked_up(graph, at or as_of_time(wait=WAIT, keep=KEEP), left, right, partitions)
    flown.to_rows("flown", {"wind": lambda found: found["wind"]})
    windy = flown.filter(lambda found: (found["wind"] or 0) > 20).by(lambda found: found["origin"])
    windy.fold(count(), name="windy").to_rows("windy")
    return graph


def looked_up(
    graph: Topology, at: AsOf[Any], left: Any = None, right: Any = None, partitions: int = 1
) -> tuple[Rows[Any], Latest[Any]]:
    """The rows of the departures, and the right side."""
    moves = graph.source("moves", inspector=Inspector("tail", "number"), partitions=partitions)
    weather = graph.source("weather", inspector=Inspector("origin", "n"), partitions=partitions)
    wind = events(graph, weather, time=lambda report: report["time"]).latest(
        name="wind", **(right or {})
    )
    out = events(graph, moves, time=lambda move: move["time"]).filter(
        lambda move: move["kind"] == "OUT"
    )
    found = out.lookup(
        wind, key=lambda move: move["origin"], at=at, merge=with_wind, name="flown",
        **(left or {}),
    )  # fmt: skip
    return found, wind


def with_wind(move: Body, report: Body | None) -> Body:
    """A departure with its wind, None where no report is known."""
    return {"origin": move["origin"], "wind": None if report is None else report["wind"]}


def move(tail: str, number: int, origin: str, time: int, saw: int = 0, kind: str = "OUT") -> Body:
    """A movement."""
    return {
        "tail": tail, "number": number, "kind": kind, "origin": origin, "time": time, "saw": saw,
    }  # fmt: skip


def report(origin: str, n: int, time: int, wind: int) -> Body:
    """A report of the weather."""
    return {"origin": origin, "n": n, "time": time, "wind": wind}


def topic_of(body: Body) -> str:
    """Where a message goes."""
    return "moves" if "tail" in body else "weather"


def said(driver: TopologyTestDriver) -> dict[tuple[str, int], Row]:
    """The rows of the lookup's table."""
    return {
        (row["stream"], row["sequence"]): (row.get("wind"), row["missing"], row["final"])
        for row in driver.table("flown").values()
    }


def windy(driver: TopologyTestDriver) -> dict[str, tuple[int, int]]:
    """The rows behind it: how many departures had much wind, and what is missing."""
    return {row["key"]: (row["value"], row["missing"]) for row in driver.table("windy").values()}


def expected(bodies: Iterable[Body], by_time: bool = True) -> dict[tuple[str, int], Row]:
    """What a lookup should find in all that came: as pandas.merge_asof does, backward.

    by_time: by the movement's time; else by the report that it saw. What never came in front of a
    report that did is missing.
    """
    reports: dict[str, list[tuple[int, int, int]]] = {}
    moves = [body for body in bodies if "tail" in body]
    for body in bodies:
        if "tail" not in body:
            at = body["time"] if by_time else body["n"]
            reports.setdefault(body["origin"], []).append((at, body["n"], body["wind"]))
    rows: dict[tuple[str, int], Row] = {}
    for each in moves:
        if each["kind"] == "OUT":
            known = sorted(reports.get(each["origin"], ()))
            at = each["time"] if by_time else each["saw"]
            rows[each["tail"], each["number"]] = _found(known, at, by_time)
    return rows


def _found(known: Sequence[tuple[int, int, int]], at: int, by_time: bool) -> Row:
    place = bisect_right(known, (at, 2**40, 0))
    used = known[place - 1] if place else None
    seen = used[1] if used else 0
    following = known[place][1] if place < len(known) else None
    clock = max((each[0] for each in known), default=0 if not by_time else -1)
    if by_time:
        return used and used[2], following - seen - 1 if following else 0, clock > at
    missing = min(following - 1, at) - seen if following else 0
    return used and used[2], missing, clock >= at


def windy_of(rows: dict[tuple[str, int], Row], bodies: Iterable[Body]) -> dict[str, Any]:
    """What the table behind it should have."""
    origins = {(body["tail"], body["number"]): body["origin"] for body in bodies if "tail" in body}
    found: dict[str, tuple[int, int]] = {}
    for key, (wind, missing, _) in rows.items():
        if (wind or 0) > 20:
            n, lost = found.get(origins[key], (0, 0))
            found[origins[key]] = n + 1, lost + missing
    return found
