"""What a process that watches for alerts answers about itself."""

from collections.abc import Iterator, Mapping
from typing import Any

from prometheus_client.core import Metric

from sequitur.alerts.watch import Watch
from sequitur.kafka.outside_pages import OutsidePages
from topology.monitoring import counter, single


class AlertPages(OutsidePages):
    """watch: what it does."""

    def __init__(self, watch: Watch, kafka: Mapping[str, Any] | None) -> None:
        super().__init__(kafka)
        self._watch = watch

    def collect(self) -> Iterator[Metric]:
        watch, actions = self._watch, self._watch.actions
        outcomes = {
            "done": actions.done,
            "failed": actions.failed,
            "held_back": actions.all_held_back,
        }
        yield single("sequitur_alerts_watching", "1 while topics are read.", watch.watching)
        yield counter(
            "sequitur_alerts_records", "Records that were read.", (), [((), watch.records)]
        )
        yield counter(
            "sequitur_alerts",
            "Alerts, by pattern.",
            ["pattern"],
            (([name], number) for name, number in watch.alerts.items()),
        )
        yield counter(
            "sequitur_alerts_actions",
            "Actions, by what became of them.",
            ["outcome"],
            (([name], number) for name, number in outcomes.items()),
        )
        yield from self.outside()

    async def troubles(self) -> list[str]:
        found = await super().troubles()
        return found or ([] if self._watch.watching else ["none of the topics is read"])
