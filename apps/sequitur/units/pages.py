"""What a unit server answers about itself: figures, and what keeps it from its work."""

import time
from collections.abc import Iterator

from prometheus_client.core import Metric

from sequitur.kafka.probe import BrokerProbe
from stores.units import UnitServer
from stores.units.server.partitions import partitions_of
from topology.monitoring import Lags, Pages, Question, counter, gauge, up

_FIGURES = {
    "messages": "Messages of a member in memory, held and parked ones too.",
    "bytes": "Their memory.",
    "parked": "Messages that are parked.",
    "sessions": "Consumers that are connected.",
    "unadmitted": "Units whose head no consumer's filter admits.",
}


class UnitPages(Pages):
    """server: whose pages they are."""

    def __init__(self, server: UnitServer) -> None:
        super().__init__()
        self._server, self._lags = server, Lags()
        self._probe = BrokerProbe(server.settings.kafka)
        self._broker = Question(self._probe)
        self._ends = Question(self._look)

    async def _look(self) -> None:
        ends = {} if self._server.partitions is None else await self._server.partitions.ends()
        self._lags.note({tuple(at): end for at, end in ends.items()}, time.monotonic())

    def collect(self) -> Iterator[Metric]:
        owners = dict(self._server.owners)
        members = partitions_of(owners.values())
        for name, what in _FIGURES.items():
            samples = (([str(each["member"])], each[name]) for each in members)
            yield gauge(f"sequitur_units_{name}", what, ["member"], samples)
        yield counter(
            "sequitur_units_outcomes",
            "Messages by how they ended, and deliveries by how they returned.",
            ["member", "outcome"],
            (
                ([str(each["member"]), outcome], count)
                for each in members
                for outcome, count in each["counts"].items()
            ),
        )
        topic = self._server.settings.destination
        positions = {(topic, member): owner.queue.read_to for member, owner in owners.items()}
        yield from self._lags.metrics("sequitur_units", positions, time.monotonic())
        yield up("broker", self._broker.answered)

    async def troubles(self) -> list[str]:
        found = [] if await self._broker() else ["the broker does not answer"]
        there = self._server.partitions
        if there is None:
            return [*found, "it does not listen yet"]
        found += [f"member {each} starts, or starts again" for each in there.starting]
        paused = [member for member, owner in self._server.owners.items() if owner.queue.paused]
        return [*found, *(f"member {each} is paused" for each in sorted(paused))]

    async def measure(self) -> None:
        await self._ends()

    async def stop(self) -> None:
        await super().stop()
        await self._broker.stop()
        await self._ends.stop()
        await self._probe.stop()
