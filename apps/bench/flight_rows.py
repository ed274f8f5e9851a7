"""The flights as their network delivers them, and the rows that three views have to make of them.

Every row of every output is compared: a peer that computes something else gets no figure.
"""

import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import orjson
import pandas as pd

from bench.workload import Message
from sequitur.flights.movements import Messages, movements, source_table
from sequitur.flights.network import Network
from sequitur.flights.topology import aircraft, carrier_delay, departure_board, inspect
from topology import Event, Record

VIEWS = ("departure_board", "aircraft", "carrier_delay")
AGO = 600_000
"""How long ago the timeline began (ms)."""

Rows = dict[str, list[tuple[int, int]]]
"""Stream → (sequence, hash of the row change) of its outputs, in order."""


@dataclass(frozen=True)
class FlightsWorkload:
    """The first `events` movements, each heard by one ground station or two.

    A record's key is the station, so that an aircraft's movements are in any partition; its time is
    that of its arrival, as if the year had come in three minutes.
    """

    events: int

    @cached_property
    def _flights(self) -> tuple[pd.DataFrame, Messages, pd.DataFrame]:
        table = source_table()
        moves = movements(table, self.events)
        arrivals = Network(lost=0).deliver(table, moves).arrivals
        return moves, Messages(table, moves), arrivals

    @property
    def messages(self) -> Iterator[Message]:
        """All messages in the order in which they arrive."""
        _, messages, arrivals = self._flights
        for index, station in zip(arrivals["index"], arrivals["station"], strict=True):
            yield str(station).encode(), messages[index]

    @property
    def times(self) -> list[int]:
        """When they arrive (ms since 1970)."""
        return clock_times(self._flights[2])

    @cached_property
    def rows(self) -> Mapping[str, Rows]:
        """View → what its output has to hold."""
        found: dict[str, Rows] = {view: {} for view in VIEWS}
        states: dict[tuple[str, str], dict[str, Any]] = {}
        for body in self._flights[1]:
            message = Record("", 0, 0, None, body)
            stream, sequence, kind, content = inspect(message)
            event: Event[Any] = Event(stream, sequence, kind, content, message)
            changes = {VIEWS[0]: departure_board(event)}
            changes[VIEWS[1]] = aircraft(event, states.setdefault((VIEWS[1], event.stream), {}))
            if event.kind == "OUT":
                state = states.setdefault((VIEWS[2], event.stream), {})
                changes[VIEWS[2]] = carrier_delay(event, state)
            for view, (row,) in changes.items():
                told = {"op": "upsert", "table": view, "key": row.key, "values": row.values}
                at = event.sequence, _hash([told])
                found[view].setdefault(event.stream, []).append(at)
        return found

    @property
    def outputs(self) -> int:
        """How many rows there are altogether."""
        return sum(len(each) for rows in self.rows.values() for each in rows.values())


def clock_times(arrivals: pd.DataFrame) -> list[int]:
    """When messages arrive (ms since 1970), if their timeline began a while ago."""
    began = time.time_ns() // 1_000_000 - AGO
    found: list[int] = (began + (arrivals["at"] * 1000).astype(int)).tolist()
    return found


def problem(values: Iterable[bytes], expected: Rows) -> str:
    """What is wrong with a view's output, in words; empty if nothing is."""
    found: Rows = {}
    for value in values:
        output = orjson.loads(value)
        at = output["sequence"], _hash(output["changes"])
        found.setdefault(output["stream"], []).append(at)
    wrong = [
        stream
        for stream in found.keys() | expected.keys()
        if found.get(stream) != expected.get(stream)
    ]
    return f"{len(wrong):,} aircraft have other rows, as {min(wrong)}" if wrong else ""


def _hash(changes: Any) -> int:
    return hash(orjson.dumps(changes, option=orjson.OPT_SORT_KEYS))
