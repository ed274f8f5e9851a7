"""Handling in a view with lanes: records are keyed by the stream, and say the lane."""

from collections.abc import Iterable
from typing import Any

import orjson

from topology.changes import Emit
from topology.event import Event
from topology.handling import Handling
from topology.lanes import shown, split_lane
from topology.unit import Out
from topology.view import View


class LaneHandling(Handling):
    """Outputs have the lane's joined stream as their fence, and the stream as their key."""

    def write(self, event: Event, items: Iterable[Any]) -> None:
        before = len(self.outputs)
        super().write(event, items)
        if len(self.outputs) > before:
            _, value, arrived, headers = self.outputs[-1]
            assert value is not None
            stream, lane = split_lane(event.stream)
            value = value[:-1] + b',"lane":' + orjson.dumps(lane) + b"}"
            self.outputs[-1] = stream.encode(), value, arrived, headers

    def emitted(self, event: Event, item: Emit) -> tuple[dict[str, list[Out]], str, Out]:
        return super().emitted(shown(event), item)


def handling_of(view: View) -> type[Handling]:
    """The way to handle a view's events."""
    return Handling if view.split is None else LaneHandling


def own_stream(view: View, event: Event) -> str:
    """The stream's own id, whether the view has lanes or not."""
    return event.stream if view.split is None else split_lane(event.stream)[0]
