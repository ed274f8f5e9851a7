"""What a process that captures answers about itself."""

from collections.abc import Iterator, Mapping
from typing import Any

from prometheus_client.core import Metric
from sqlalchemy import Engine

from sequitur.kafka.outside_pages import OutsidePages
from sequitur.replay.capture import Capture
from topology.model.printable import printable
from topology.monitoring import Question, counter, gauge
from topology.monitoring.pages import FIGURES


class CapturePages(OutsidePages):
    """engine: of the log's database."""

    def __init__(self, capture: Capture, kafka: Mapping[str, Any] | None, engine: Engine) -> None:
        super().__init__(kafka, engine, "the log's database")
        self._capture = capture
        self._behind = Question(self._look, FIGURES)
        capture.took = self.histogram(
            "sequitur_capture_batch_seconds", "Keeping a batch.", ["topic"]
        )

    def collect(self) -> Iterator[Metric]:
        works = dict(self._capture.works)
        yield gauge(
            "sequitur_capture_state",
            "1 while a topic's capture is in this state; one that owns nothing stands by.",
            ["topic", "state"],
            (
                ([topic, state], so)
                for topic, work in works.items()
                for state, so in (("owns", work.owns), ("failing", work.failing is not None))
            ),
        )
        yield counter(
            "sequitur_capture_messages",
            "Messages of a topic by what became of them.",
            ["topic", "outcome"],
            (
                ([topic, outcome], number)
                for topic, counts in dict(self._capture.counts).items()
                for outcome, number in counts().items()
            ),
        )
        yield gauge(
            "sequitur_capture_behind_records",
            "Records of a topic that are not captured.",
            ["topic", "partition"],
            (self._behind.answer or {}).items(),
        )
        yield from self.outside()

    async def _look(self) -> dict[tuple[str, str], int]:
        return {
            (topic, str(number)): left
            for topic, work in dict(self._capture.works).items()
            if work.owns
            for number, left in (await work.behind()).items()
        }

    async def measure(self) -> None:
        await self._behind()

    async def troubles(self) -> list[str]:
        failing = {
            topic: work.failing
            for topic, work in self._capture.works.items()
            if work.failing is not None
        }
        return await super().troubles() + [
            f"{printable(topic)}: {printable(why, 400)}"
            for topic, why in sorted((self._capture.unfit | failing).items())
        ]

    async def stop(self) -> None:
        await super().stop()
        await self._behind.stop()
