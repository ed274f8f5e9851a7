"""What an open transaction hides of a partition is seen, and what one hides for a moment is not."""

from collections.abc import Callable, Coroutine, Iterable
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka import TopicPartition

from topology.engine.intake import IntakeCounts
from topology.faust.inspection.durable import DurableState
from topology.faust.kafka import open_transactions
from topology.faust.kafka.offsets import Committed
from topology.faust.kafka.open_transactions import Held, held_back
from topology.faust.worker.reading.barrier import Barriers

AT = TopicPartition("orders", 0)


def ends(*looks: int) -> Callable[[Iterable[TopicPartition]], Coroutine[Any, Any, dict[Any, int]]]:
    """The ends of all partitions, look by look; the last one stays."""
    left = list(looks)

    async def asked(partitions: Iterable[TopicPartition]) -> dict[Any, int]:
        return dict.fromkeys(partitions, left.pop(0) if len(left) > 1 else left[0])

    return asked


@pytest.mark.parametrize(
    ("readable", "found"),
    [((9,), {}), ((5, 5, 9), {}), ((5, 9, 5), {}), ((5,), {AT: Held(5, 9)})],
)
async def test_a_partition_is_held_if_a_transaction_stays_open(
    readable: tuple[int, ...], found: dict[Any, Held], monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped = list[bool]()

    async def stop() -> None:
        stopped.append(True)

    async def everything(_: Any, **__: Any) -> Any:
        return SimpleNamespace(end_offsets=ends(9), stop=stop)

    monkeypatch.setattr(open_transactions, "connected_consumer", everything)
    monkeypatch.setattr(open_transactions, "HELD", 0.1)
    monkeypatch.setattr(open_transactions, "PAUSE", 0.01)
    committed: Any = SimpleNamespace(end_offsets=ends(*readable))
    assert await held_back(None, committed, [AT]) == found
    assert stopped == [True]


async def test_what_an_open_transaction_hides_is_not_read_yet() -> None:
    look: Any = object.__new__(DurableState)
    look._started = SimpleNamespace(beginning_offsets=ends(0), end_offsets=ends(5))
    look.held = {AT: Held(5, 9)}

    async def inputs(_: Any) -> list[TopicPartition]:
        return [AT]

    async def committed(_: Any) -> dict[TopicPartition, Committed]:
        return {AT: Committed(5, IntakeCounts(5))}

    look.inputs, look.committed = inputs, committed
    assert await look.positions(None) == {"orders/0": (5, 9)}
    assert await look.backlog(None) == 4
    look._started.end_offsets = ends(9)  # it has ended
    assert await look.positions(None) == {"orders/0": (5, 9)}
    look._started.end_offsets = ends(12)
    assert await look.backlog(None) == 7


async def test_a_worker_s_lag_has_what_an_open_transaction_hides() -> None:
    barriers: Any = Barriers(None, None)  # type: ignore[arg-type]
    with pytest.raises(ConnectionError):
        await barriers.ends([AT])
    barriers._committed = SimpleNamespace(end_offsets=ends(5))
    barriers._all = SimpleNamespace(end_offsets=ends(9))
    assert await barriers.ends([AT]) == {AT: 9}
