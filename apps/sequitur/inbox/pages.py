"""What an inbox's process answers about itself: figures, and what keeps it from receiving."""

import asyncio
import time
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from prometheus_client.core import Metric
from sqlalchemy import select

from sequitur.inbox.feed import Feed
from stores.db.clock import Now
from stores.inbox import Inbox, ReceiveResult, commands
from topology.model.printable import printable
from topology.monitoring import Lags, Pages, Question, counter, gauge, up
from topology.monitoring.pages import FIGURES


class _Found(NamedTuple):
    counts: commands.InboxCounts
    oldest_gap: float


class InboxPages(Pages):
    """feed: of the inbox, unless it is served over HTTP."""

    def __init__(self, inbox: Inbox, feed: Feed | None = None) -> None:
        super().__init__()
        self._inbox, self._feed, self._lags = inbox, feed, Lags()
        self._database = Question(lambda: asyncio.to_thread(self._now))
        self._found = Question(lambda: asyncio.to_thread(self._look), FIGURES)
        self._broker = None if feed is None else Question(self._ends)
        self._received: Counter[str] = Counter()
        self._took = self.histogram(
            "sequitur_inbox_receive_seconds", "Storing a batch of messages durably."
        )
        if feed is not None:
            feed.received = self.received

    def received(self, result: ReceiveResult, seconds: float) -> None:
        """Count a batch."""
        for name in ("stored", "duplicates", "malformed"):
            self._received[name] += getattr(result, name)
        self._received["refused"] += len(result.refused)
        self._took.observe(seconds)

    def _now(self) -> int:
        with self._inbox.engine.connect() as connection:
            return int(connection.execute(select(Now())).scalar_one())

    def _look(self) -> _Found:
        oldest = commands.gaps(self._inbox, 1)
        age = max(0.0, (self._now() - oldest[0].since) / 1000) if oldest else 0.0
        return _Found(commands.counts(self._inbox), age)

    async def _ends(self) -> None:
        assert self._feed is not None
        ends = await self._feed.ends()
        self._lags.note({tuple(at): end for at, end in ends.items()}, time.monotonic())

    def collect(self) -> Iterator[Metric]:
        yield counter(
            "sequitur_inbox_messages",
            "Messages that came, by what became of them.",
            ["outcome"],
            (
                ([name], self._received[name])
                for name in ("stored", "duplicates", "malformed", "refused")
            ),
        )
        for name, what, values in (
            ("messages", "Messages that are in the inbox.", self._count("messages")),
            ("messages_behind_gaps", "Of them, those that wait.", self._count("behind_gaps")),
            ("parked_streams", "Streams that were set aside.", self._count("parked")),
            ("dead_messages", "What was no message, or was passed by.", self._count("dead")),
        ):
            yield gauge(f"sequitur_inbox_{name}", what, (), values)
        oldest = () if self._found.answer is None else (((), self._found.answer.oldest_gap),)
        yield gauge(
            "sequitur_inbox_oldest_gap_seconds", "For how long the oldest gap is open.", (), oldest
        )
        yield up("database", self._database.answered)
        if self._feed is not None and self._broker is not None:
            positions = {(at.topic, at.partition): n for at, n in self._feed.positions.items()}
            yield from self._lags.metrics("sequitur_inbox", positions, time.monotonic())
            yield up("broker", self._broker.answered)

    def _count(self, name: str) -> list[tuple[tuple[str, ...], float]]:
        """A figure of the database; nothing before it has answered."""
        found = self._found.answer
        return [] if found is None else [((), getattr(found.counts, name))]

    async def troubles(self) -> list[str]:
        asked = [self._database(), *([self._broker()] if self._broker is not None else [])]
        answers = await asyncio.gather(*asked)
        names = ("the inbox's database does not answer", "the broker does not answer")
        found = [what for what, answered in zip(names, answers, strict=False) if not answered]
        if self._feed is not None and self._feed.failing is not None:
            found.append(printable(self._feed.failing, 200))
        return found

    async def measure(self) -> None:
        await self._found()

    async def stop(self) -> None:
        await super().stop()
        for each in (self._database, self._found, self._broker):
            if each is not None:
                await each.stop()
