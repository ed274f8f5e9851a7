"""Behind another producer's open transaction, no look says that nothing waits."""

from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka import TopicPartition
from confluent_kafka import Producer

from tests.topology.faust.inspection.test_inspection import Looks, event
from tests.topology.faust.worker_process import Worker
from topology import Inspector, Topology
from topology.diagnostics.explain.bad_news import STILL
from topology.engine.intake import IntakeCounts
from topology.faust.inspection.durable import Span, Tail
from topology.faust.inspection.inputs import Inputs
from topology.faust.kafka import open_transactions
from topology.faust.kafka.offsets import Committed

AT = TopicPartition("orders", 0)

APP = """
import os
from topology import Emit, Inspector, Topology, wait
from topology.faust import compile

prefix = os.environ["PREFIX"]
topology = Topology(prefix)
source = topology.source(
    prefix + ".in", inspector=Inspector(stream="id", sequence="seq", kind="kind"), name="in",
    partitions=2,
)

@topology.view("board", of=source, gap=wait())
def board(event):
    yield Emit(prefix + ".board-out", event.stream, event.content)

app = compile(topology, group=prefix, session_timeout=20)
"""


async def test_what_an_open_transaction_hides_may_be_what_a_stream_waits_for() -> None:
    topology = Topology("shop")
    orders = topology.source("orders", inspector=Inspector("id", "n"), partitions=1)
    topology.view("board", of=orders, handler=lambda event: None)

    async def inputs(_: Any) -> list[TopicPartition]:
        return [AT]

    async def committed(_: Any) -> dict[TopicPartition, Committed]:
        return {AT: Committed(5, IntakeCounts(5))}

    async def span(_: Any) -> dict[TopicPartition, Span]:
        return {AT: Span(0, 5, held=4)}

    async def end_of(*_: Any, **__: Any) -> Tail:
        return Tail([], 0, None)

    durable: Any = SimpleNamespace(inputs=inputs, committed=committed, span=span, end_of=end_of)
    found = await Inputs(durable, "a").unkeyed(topology.views["board"], "a")
    assert found.offsets == 4
    assert found.unseen == ["orders/0 is held by an open transaction at offset 5"]


@pytest.mark.integration
def test_no_look_says_that_nothing_waits_behind_an_open_transaction(
    worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(open_transactions, "HELD", 1.0)
    looks = Looks(worker, monkeypatch)
    worker.start()
    worker.send(event("a", 1), event("a", 3))
    worker.wait("board-out", 1)
    other = Producer(
        {
            "bootstrap.servers": worker.broker,
            "partitioner": "murmur2_random",
            "transactional.id": f"{worker.prefix}-other",
            "transaction.timeout.ms": 600_000,
        }
    )
    other.init_transactions()
    other.begin_transaction()
    key, value = event("a", 9)
    other.produce(f"{worker.prefix}.in", value, key)
    other.flush()
    worker.send(event("a", 2))

    found = looks.views()
    (trouble,) = [each for each in found.troubles() if each.place == STILL]
    assert "is held by an open transaction at offset 2" in str(trouble)
    assert found.views[0].lag >= 2
    assert looks.gaps().unread >= 2
    account = looks.explain("a", "board")
    assert account.context.may_come
    assert not any(" skip " in each.command for each in account.remedies)
    audit = worker.run("audit")
    assert "in order so far: " in audit.stdout
    assert "not read yet" in audit.stdout

    other.abort_transaction()
    worker.wait("board-out", 3)
    assert not looks.views().troubles()
