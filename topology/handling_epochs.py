"""Handling in a view that has rebuilt streams: their output records say in which epoch they are."""

from collections.abc import Iterable, Mapping
from typing import Any

from topology.event import Event
from topology.handling import Handling
from topology.handling_lanes import LaneHandling
from topology.progress import Progress
from topology.view import View

EPOCH = "epoch"
"""Header and field of an output record: how often its stream was rebuilt before, if it was."""


class EpochHandling(Handling):
    """changed: stream → its progress after the step, of the streams that are handled."""

    changed: Mapping[str, int | Progress] = {}

    def epoch(self, stream: str) -> int:
        progress = self.changed.get(stream)
        return progress.epoch if isinstance(progress, Progress) else 0

    def write(self, event: Event, items: Iterable[Any]) -> None:
        before = len(self.outputs)
        super().write(event, items)
        if len(self.outputs) > before and (epoch := self.epoch(event.stream)):
            key, value, arrived, headers = self.outputs[-1]
            assert value is not None
            value = value[:-1] + b',"epoch":%d}' % epoch
            headers = [*headers, (EPOCH, b"%d" % epoch)]
            self.outputs[-1] = key, value, arrived, headers


class EpochLaneHandling(EpochHandling, LaneHandling):
    """The same in a view with lanes."""


def epoch_handling_of(view: View) -> type[EpochHandling]:
    """The way to handle a view's events once it has rebuilt a stream."""
    return EpochHandling if view.split is None else EpochLaneHandling
