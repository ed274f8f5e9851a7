"""What a process that forwards between sites answers about itself."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from prometheus_client.core import Metric

from sequitur.kafka.outside_pages import OutsidePages
from stores.sites.forwarder import Forwarder
from topology.model.printable import printable
from topology.monitoring import counter, gauge

_WAY = ("topic", "site")


class SitePages(OutsidePages):
    """ways: all that the process forwards. kafka: of this site."""

    def __init__(self, ways: Sequence[Forwarder], kafka: Mapping[str, Any] | None) -> None:
        super().__init__(kafka)
        self._ways = ways

    def collect(self) -> Iterator[Metric]:
        ways = {(each.topic, each.peer.name): each for each in self._ways}
        yield counter(
            "sequitur_sites_forwarded_messages",
            "Messages of a topic that a site has got.",
            _WAY,
            ((way, each.forwarded) for way, each in ways.items()),
        )
        yield gauge(
            "sequitur_sites_forwarding",
            "1 while a topic is forwarded to a site.",
            _WAY,
            ((way, each.failing is None) for way, each in ways.items()),
        )
        yield gauge(
            "sequitur_sites_stuck_partitions",
            "Partitions of a topic that stand still.",
            _WAY,
            ((way, len(each.stuck)) for way, each in ways.items()),
        )
        yield from self.outside()

    async def troubles(self) -> list[str]:
        found = await super().troubles()
        for each in self._ways:
            if each.failing is not None:
                found.append(f"{each}: {printable(each.failing, 400)}")
            found += [f"{each}: partition {n} stands still: {why}" for n, why in each.stuck.items()]
        return found
