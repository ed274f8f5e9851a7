"""Handling in a view with lanes: records are keyed by the stream, and say the lane."""

import orjson

from topology.declaration.lanes import shown, split_lane
from topology.declaration.view import View
from topology.engine.commit_unit import Out
from topology.engine.handling import Handling
from topology.model.changes import Delete, Emit, Upsert
from topology.model.event import Event


class LaneHandling(Handling):
    """Outputs have the lane's joined stream as their fence, and the stream as their key."""

    def say(self, event: Event, key: str, changes: list[Upsert | Delete], value: bytes) -> None:
        stream, lane = split_lane(key)
        lane_of = b',"lane":' + orjson.dumps(lane) + b"}"
        super().say(event, stream, changes, value[:-1] + lane_of)

    def emitted(self, event: Event, item: Emit) -> tuple[dict[str, list[Out]], str, Out]:
        return super().emitted(shown(event), item)


def handling_of(view: View) -> type[Handling]:
    """The way to handle a view's events."""
    return Handling if view.split is None else LaneHandling


def own_stream(view: View, event: Event) -> str:
    """The stream's own id, whether the view has lanes or not."""
    return event.stream if view.split is None else split_lane(event.stream)[0]
