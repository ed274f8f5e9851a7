"""Handling in a view that has rebuilt streams: their output records say in which epoch they are."""

from collections.abc import Mapping

from topology.declaration.view import View
from topology.engine.handling import Handling
from topology.engine.lane_handling import LaneHandling
from topology.model.changes import Delete, Upsert
from topology.model.event import Event
from topology.sequencer.progress import Progress

EPOCH = "epoch"
"""Header and field of an output record: how often its stream was rebuilt before, if it was."""


class EpochHandling(Handling):
    """changed: stream → its progress after the step, of the streams that are handled."""

    changed: Mapping[str, int | Progress] = {}

    def epoch(self, stream: str) -> int:
        progress = self.changed.get(stream)
        return progress.epoch if isinstance(progress, Progress) else 0

    def say(self, event: Event, key: str, changes: list[Upsert | Delete], value: bytes) -> None:
        epoch = self.epoch(event.stream)
        if not epoch:
            super().say(event, key, changes, value)
            return
        super().say(event, key, changes, value[:-1] + b',"epoch":%d}' % epoch)
        self.outputs[-1][3].append((EPOCH, b"%d" % epoch))


class EpochLaneHandling(LaneHandling, EpochHandling):
    """The same in a view with lanes."""


def epoch_handling_of(view: View) -> type[EpochHandling]:
    """The way to handle a view's events once it has rebuilt a stream."""
    return EpochHandling if view.split is None else EpochLaneHandling
