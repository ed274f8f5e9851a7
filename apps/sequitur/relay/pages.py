"""What a relay answers about itself: figures, and what keeps it from moving its log."""

import asyncio
from collections.abc import Iterator, Sequence

from prometheus_client.core import Metric
from sqlalchemy import Engine

from sequitur.kafka.probe import BrokerProbe
from sequitur.relay.relay import Relay
from sequitur.relay.status import Waiting, now_of, waiting
from stores.outbox import MessageLog
from topology.model.counted import counted
from topology.model.printable import printable
from topology.monitoring import Pages, Question, counter, gauge, single, up
from topology.monitoring.pages import FIGURES


class RelayPages(Pages):
    """broker: of the relay to Kafka; None over HTTP."""

    def __init__(
        self, relay: Relay, engine: Engine, log: MessageLog, broker: BrokerProbe | None
    ) -> None:
        super().__init__()
        self._relay, self._engine, self._log = relay, engine, log
        self._probe = broker
        self._broker = None if broker is None else Question(broker)
        self._database = Question(lambda: asyncio.to_thread(self._now))
        self._waiting = Question(lambda: asyncio.to_thread(self._look), FIGURES)
        relay.took = self.histogram(
            "sequitur_relay_send_seconds", "Sending a batch, until it is acknowledged."
        ).observe

    def _now(self) -> int:
        with self._engine.connect() as connection:
            return now_of(connection)

    def _look(self) -> Sequence[Waiting]:
        with self._engine.connect() as connection:
            return waiting(connection, self._log)

    def collect(self) -> Iterator[Metric]:
        relay, term = self._relay, self._relay.term
        moved = {
            "sent": relay.moved.sent,
            "again": relay.moved.again,
            "void": relay.moved.voids,
            "deleted": relay.moved.deleted,
        }
        topics = (self._waiting.answer or ()) if self._waiting.answered else ()
        yield single("sequitur_relay_leads", "1 if this relay leads.", relay.leading.is_set())
        yield counter(
            "sequitur_relay_messages",
            "Messages by what this relay did with them.",
            ["outcome"],
            (([name], count) for name, count in moved.items()),
        )
        yield gauge(
            "sequitur_relay_waiting_messages",
            "Messages that are in the log.",
            ["topic"],
            (([printable(each.topic)], each.messages) for each in topics),
        )
        yield gauge(
            "sequitur_relay_oldest_seconds",
            "For how long the oldest message has been in the log.",
            ["topic"],
            (([printable(each.topic)], each.oldest) for each in topics),
        )
        yield single(
            "sequitur_relay_refused_messages",
            "Messages that were refused, and those behind them.",
            len(term.outstanding) if term else 0,
        )
        yield single(
            "sequitur_relay_refused_bytes", "Their memory.", term.outstanding.bytes if term else 0
        )
        yield up("database", self._database.answered)
        if self._broker is not None:
            yield up("broker", self._broker.answered)

    async def troubles(self) -> list[str]:
        asked = [self._database(), *([self._broker()] if self._broker is not None else [])]
        answers = await asyncio.gather(*asked)
        found = [
            f"the {what} does not answer"
            for what, answered in zip(("log's database", "broker"), answers, strict=False)
            if not answered
        ]
        if self._relay.unavailable is not None:
            found.append(printable(self._relay.unavailable, 200))
        if (term := self._relay.term) is not None and (refused := len(term.outstanding)):
            found.append(f"{refused} messages wait since they, or ones before them, were refused")
            if whole := sorted(term.outstanding.whole):
                names = ", ".join(map(printable, whole[:5]))
                found.append(f"nothing of {counted(len(whole), 'topic')} goes on: {names}")
        return found

    async def measure(self) -> None:
        await self._waiting()

    async def stop(self) -> None:
        await super().stop()
        await self._database.stop()
        await self._waiting.stop()
        if self._broker is not None and self._probe is not None:
            await self._broker.stop()
            await self._probe.stop()
