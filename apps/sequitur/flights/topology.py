"""The topology of the flights: what becomes of the movements, as three views."""

from collections.abc import Iterator
from typing import Any

from topology import Event, Inspector, Message, Table, Topology, Upsert, contiguous, skip

SOURCE = "flights.movements"
WEATHER = b'{"weather":'
"""How a station's weather report begins."""
FAULT = "fault"
"""A field of movements that the view `aircraft` cannot handle; see `disorder.py`."""

_movement = Inspector(stream="tail", sequence="number", kind="kind").compile()


def inspect(message: Message) -> Any:
    """The stream is the aircraft, the sequence its message number. Weather reports are unknown."""
    value = message.value
    return None if value is not None and value.startswith(WEATHER) else _movement(message)


topology = Topology("flights")
movements = topology.source(SOURCE, inspector=inspect, sequence=contiguous(start=1))

BOARD = Table(
    "departure_board",
    key={"flight_id": int},
    columns={
        **{"tail": str, "carrier": str, "flight": int, "origin": str, "dest": str, "status": str},
        **{"scheduled_out": str, "actual_out": str, "departure_delay": int},
        **{"scheduled_in": str, "actual_in": str, "arrival_delay": int},
    },
)
AIRCRAFT = Table(
    "aircraft",
    key={"tail": str},
    columns={
        **{"messages": int, "legs": int, "minutes_in_air": int},
        **{"last_airport": str, "last_movement": str, "last_time": str, "last_number": int},
    },
)
CARRIER_DELAY = Table(
    "carrier_delay",
    key={"carrier": str, "tail": str},
    columns={"flights": int, "delay_minutes": int, "worst_delay": int},
)


@topology.view("departure_board", of=movements, gap=skip(after=15), tables=[BOARD])
def departure_board(event: Event) -> Iterator[Upsert]:
    """A row per flight: it leaves the gate, then it reaches one. Delays are in minutes.

    An IN message repeats what its OUT message said, as aircraft's reports do, so that a flight
    whose OUT message was lost has its row as well.
    """
    said = event.content
    yield Upsert(
        BOARD.name,
        key={"flight_id": said["flight_id"]},
        values={
            "tail": event.stream,
            "carrier": said["carrier"],
            "flight": said["flight"],
            "origin": said["origin"],
            "dest": said["dest"],
            "status": event.kind,
            "scheduled_out": said["scheduled_out"],
            "actual_out": said["out"],
            "departure_delay": said["dep_delay"],
            "scheduled_in": said["scheduled_in"],
            "actual_in": said["in"],
            "arrival_delay": said["arr_delay"],
        },
    )


@topology.view("aircraft", of=movements, gap=skip(after=15), tables=[AIRCRAFT])
def aircraft(event: Event, state: dict[str, Any]) -> Iterator[Upsert]:
    """A row per aircraft: the legs it has flown, and where it was last. Kept in the state."""
    said, landed = event.content, event.kind == "IN"
    if FAULT in said:
        raise ValueError(f"movement {event.sequence} of {event.stream} bears a fault")
    state["messages"] = state.get("messages", 0) + 1
    state["legs"] = state.get("legs", 0) + landed
    state["minutes_in_air"] = state.get("minutes_in_air", 0) + (said["air_time"] or 0)
    yield Upsert(
        AIRCRAFT.name,
        key={"tail": event.stream},
        values={
            **state,
            "last_airport": said["dest"] if landed else said["origin"],
            "last_movement": event.kind,
            "last_time": said["time"],
            "last_number": event.sequence,
        },
    )


@topology.view(
    "carrier_delay", of=movements, accepts={"OUT"}, gap=skip(after=15), tables=[CARRIER_DELAY]
)
def carrier_delay(event: Event, state: dict[str, Any]) -> Iterator[Upsert]:
    """A row per carrier and aircraft: departures and their delay. Some aircraft fly for several.

    A view's state belongs to one stream, here one aircraft; a query sums up the carriers.
    """
    carrier, delay = event.content["carrier"], event.content["dep_delay"]
    flights, total, worst = state.get(carrier, (0, 0, delay))
    state[carrier] = flights + 1, total + delay, max(worst, delay)
    yield Upsert(
        CARRIER_DELAY.name,
        key={"carrier": carrier, "tail": event.stream},
        values={
            "flights": flights + 1,
            "delay_minutes": total + delay,
            "worst_delay": max(worst, delay),
        },
    )
