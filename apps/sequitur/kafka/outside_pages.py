"""The pages of a process that needs Kafka, a database, or both: whether they answer."""

import asyncio
from collections.abc import Iterator, Mapping
from typing import Any

from prometheus_client.core import Metric
from sqlalchemy import Engine, text

from sequitur.kafka.probe import BrokerProbe
from topology.monitoring import Pages, Question, up


class OutsidePages(Pages):
    """kafka: of aiokafka's clients. engine: of the database, whose name is for troubles."""

    def __init__(
        self, kafka: Mapping[str, Any] | None, engine: Engine | None = None, database: str = ""
    ) -> None:
        super().__init__()
        self._engine = engine
        self._probe = None if kafka is None else BrokerProbe(kafka)
        self._asked: dict[str, tuple[str, Question[Any]]] = {}
        if engine is not None:
            asking = Question(lambda: asyncio.to_thread(self._ask))
            self._asked["database"] = f"{database} does not answer", asking
        if self._probe is not None:
            self._asked["broker"] = "the broker does not answer", Question(self._probe)

    def _ask(self) -> None:
        assert self._engine is not None
        with self._engine.connect() as connection:
            connection.execute(text("SELECT 1"))

    def outside(self) -> Iterator[Metric]:
        """Whether each answered."""
        for name, (_, asked) in self._asked.items():
            yield up(name, asked.answered)

    async def troubles(self) -> list[str]:
        answers = await asyncio.gather(*(asked() for _, asked in self._asked.values()))
        found = zip(self._asked.values(), answers, strict=True)
        return [what for (what, _), answered in found if not answered]

    async def stop(self) -> None:
        await super().stop()
        for _, asked in self._asked.values():
            await asked.stop()
        if self._probe is not None:
            await self._probe.stop()
