"""Handlers that fail for some events, for some time; and what a stream of a view comes to."""

from collections.abc import Callable, Mapping
from typing import Any

from tests.topology.deliveries import Arrival, records
from tests.topology.partition import Partition, board, shop
from topology import Event

FOR_EVER = 2**60


class Faults:
    """The handler `board`, which fails for `until[stream, sequence]` as long as it is before then.

    By the partition's clock (ms), so that a step that is lost and taken again fails again.
    """

    def __init__(self, until: Mapping[tuple[str, int], int] | None = None) -> None:
        self.until = dict(until or {})
        self.now: Callable[[], int] = lambda: 0

    def handler(self, event: Event, state: dict[str, Any]) -> Any:
        state["calls"] = state.get("calls", 0) + 1
        if self.now() < self.until.get((event.stream, event.sequence), 0):
            raise ValueError(f"{event.sequence} is not to be handled yet")
        del state["calls"]
        return board(event, state)

    def partition(self, **policies: Any) -> Partition:
        """A partition whose view has this handler."""
        partition = Partition(shop(handler=self.handler, **policies))
        self.now = lambda: partition.now
        return partition


def feed(partition: Partition, *sequences: int, stream: str = "a") -> None:
    """One batch of events of a stream."""
    arrivals = [Arrival(stream, sequence - 1, partition.now) for sequence in sequences]
    partition.feed(records(arrivals))


def done(partition: Partition) -> list[tuple[str, int, str]]:
    """(stream, sequence, what was done), as the error log has it."""
    return [
        (report["stream"], report["sequence"], report["done"])
        for report in partition.values("shop.errors")
    ]
