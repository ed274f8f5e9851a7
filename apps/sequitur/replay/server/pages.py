"""What a replay server answers about itself, beside what it serves."""

import asyncio
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from prometheus_client.core import Metric

from sequitur.kafka.outside_pages import OutsidePages
from sequitur.replay.server.service import Service
from stores.replay.recoveries import Recoveries
from topology.monitoring import Question, counter, gauge, single
from topology.monitoring.pages import FIGURES


class _Figures(NamedTuple):
    """state → replays; messages that are to be published; recoveries; the log's last id."""

    replays: Mapping[str, int]
    left: int
    recoveries: int
    end: int


class ServerPages(OutsidePages):
    """recoveries: of the log. requests: of the control topic, what became of them → how many."""

    def __init__(
        self,
        recoveries: Recoveries,
        service: Service,
        kafka: Mapping[str, Any] | None,
        requests: Mapping[str, int] = MappingProxyType({}),
    ) -> None:
        super().__init__(kafka, recoveries.replays.engine, "the log's database")
        self._recoveries, self._requests = recoveries, requests
        self._figures = Question(lambda: asyncio.to_thread(self._look), FIGURES)
        service.took = self.histogram(
            "sequitur_replay_query_seconds", "A query over HTTP, in the database."
        ).observe

    def _look(self) -> _Figures:
        replays = self._recoveries.replays
        open_ = replays.open()
        left = sum(each for _, each in open_.values())
        counts = {state: number for state, (number, _) in open_.items()}
        return _Figures(counts, left, len(self._recoveries.open()), replays.log.end())

    def collect(self) -> Iterator[Metric]:
        found = self._figures.answer or _Figures({}, 0, 0, 0)
        yield gauge(
            "sequitur_replays",
            "Replays that have not ended.",
            ["state"],
            (([state], number) for state, number in found.replays.items()),
        )
        yield single("sequitur_replay_left_messages", "Messages that they have left.", found.left)
        yield single("sequitur_recoveries", "Recoveries that are not closed.", found.recoveries)
        yield single("sequitur_replay_log_end", "The last id of the log.", found.end)
        yield counter(
            "sequitur_replay_requests",
            "Requests of the control topic by what became of them.",
            ["outcome"],
            (([outcome], number) for outcome, number in dict(self._requests).items()),
        )
        yield from self.outside()

    async def measure(self) -> None:
        await self._figures()

    async def stop(self) -> None:
        await super().stop()
        await self._figures.stop()
