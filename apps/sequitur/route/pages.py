"""What a process of `route consume` or `route publish` answers about itself."""

import asyncio
from collections.abc import Iterator, Mapping
from typing import Any

from prometheus_client.core import Metric
from sqlalchemy import text

from sequitur.kafka.probe import BrokerProbe
from sequitur.route.units import RouterUnits
from stores.segments.owned_work import OwnedWork
from topology.model.printable import printable
from topology.monitoring import Pages, Question, counter, gauge, up
from topology.monitoring.pages import FIGURES

Backlog = dict[tuple[str, str], int]
"""(topic, transport) → bytes that are to be published."""


class RoutePages(Pages):
    """works: topic → its work. kafka: of the process's transport, if it is of Kafka."""

    def __init__(
        self, units: RouterUnits, works: Mapping[str, OwnedWork], kafka: Mapping[str, Any] | None
    ) -> None:
        super().__init__()
        self._units, self._works = units, works
        self._database = Question(lambda: asyncio.to_thread(self._ask))
        self._backlog = Question(lambda: asyncio.to_thread(self._look), FIGURES)
        self._probe = None if kafka is None else BrokerProbe(kafka)
        self._broker = None if self._probe is None else Question(self._probe)
        took = self.histogram(
            "sequitur_route_batch_seconds", "Saving, or publishing, a batch.", ["topic"]
        )
        for topic, work in works.items():
            work.took = took.labels(topic).observe

    def _ask(self) -> None:
        with self._units.engine.connect() as connection:
            connection.execute(text("SELECT 1"))

    def _look(self) -> Backlog:
        ledger = self._units.ledger
        return {
            (topic, transport): size
            for topic in {pair.topic for pair in ledger.pairs()}
            for transport, size in ledger.backlogs(topic).items()
        }

    def collect(self) -> Iterator[Metric]:
        works = dict(self._works)
        yield gauge(
            "sequitur_route_state",
            "1 while a topic's work is in this state; one that owns nothing stands by.",
            ["topic", "state"],
            (([at, name], so) for at, work in works.items() for name, so in _states(work)),
        )
        yield counter(
            "sequitur_route_messages",
            "Messages of a topic by what became of them.",
            ["topic", "outcome"],
            (
                ([at, name.replace(" ", "_")], count)
                for at, work in works.items()
                for name, count in _counts(work).items()
            ),
        )
        yield gauge(
            "sequitur_route_backlog_bytes",
            "Bytes of segments that are to be published.",
            ["topic", "transport"],
            (self._backlog.answer or {}).items(),
        )
        yield up("database", self._database.answered)
        if self._broker is not None:
            yield up("broker", self._broker.answered)

    async def troubles(self) -> list[str]:
        asked = [self._database(), *([self._broker()] if self._broker is not None else [])]
        answers = await asyncio.gather(*asked)
        names = ("the ledger's database does not answer", "the broker does not answer")
        found = [what for what, answered in zip(names, answers, strict=False) if not answered]
        for topic, work in sorted(self._works.items()):
            if work.failing is not None:
                found.append(f"{printable(topic)}: {printable(work.failing, 400)}")
            if paused := _paused(work):
                waits = ", ".join(sorted(map(printable, paused)))
                found.append(f"{printable(topic)} is paused: too much waits for {waits}")
        return found

    async def measure(self) -> None:
        await self._backlog()

    async def stop(self) -> None:
        await super().stop()
        for each in (self._database, self._backlog, self._broker, self._probe):
            if each is not None:
                await each.stop()


def _states(work: OwnedWork) -> tuple[tuple[str, bool], ...]:
    return (
        ("owns", work.owns),
        ("failing", work.failing is not None),
        ("paused", bool(_paused(work))),
    )


def _counts(work: Any) -> dict[str, int]:
    """What consumers and publishers have counted."""
    intake = getattr(work, "intake", None)
    return {**getattr(work, "counts", {}), **(intake.counts if intake is not None else {})}


def _paused(work: Any) -> Any:
    """The transports for which too much waits."""
    backpressure = getattr(work, "backpressure", None)
    return backpressure.full if backpressure is not None else ()
