"""Workers go by the broker's clock: a wrong one of their machine gives no gap up too early."""

import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from confluent_kafka.cimpl import NewTopic

from soak.chaos import Soak, let_work
from soak.check import check
from soak.harms import LEAP
from soak.workload import Workload, workload
from tests.conftest import BrokerAddress, make_topics
from topology import Inspector, Topology
from topology.faust import compile
from topology.faust.kafka.broker.clock import agree_on_time, go_by_broker
from topology.faust.kafka.worker_clock import Clock

pytestmark = pytest.mark.integration


def test_a_gap_outlives_a_machine_whose_clock_is_wrong(soaks: Callable[..., Soak]) -> None:
    soak = soaks()
    work = workload(3_000, 40, seed=5, late=0.5)
    part = len(work.messages) // 3
    soak.fill(Workload(work.messages[:part], {}))
    soak.start("a")
    for number, ahead in enumerate((LEAP, -LEAP), 1):
        soak.ready("a")
        let_work(soak, part, 15)
        soak.kill("a")
        # By this clock, what waits has waited for longer than its view does, or from tomorrow on.
        soak.start("a", ahead)
        soak.ready("a")
        assert b"this machine's clock is 21" in soak.said("a")
        soak.send(work.messages[number * part : (number + 1) * part if number == 1 else None])
    soak.wait(240)
    assert soak.stop_all() == {"a": 0}
    assert check(soak.broker, soak.prefix, work, soak.data("a")) == []


async def test_a_topic_that_the_broker_does_not_stamp_is_no_clock(
    broker: BrokerAddress,
    unique: Callable[[str], str],
    create_topics: Callable[[dict[str, int]], None],
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    shop = Topology(unique("shop"))
    source = shop.source("orders", inspector=Inspector("id", "n"))
    shop.view("board", of=source, handler=lambda event: None)
    create_topics({shop.clock_topic: 1})
    app = compile(shop, broker=broker.address, datadir=str(tmp_path))
    assert not await go_by_broker(app)
    assert "needs message.timestamp.type=LogAppendTime" in caplog.text


async def test_what_looks_at_the_workers_goes_by_their_clock(
    broker: BrokerAddress,
    unique: Callable[[str], str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    slow = Clock(lambda: time.time() - 21_600)
    for module in ("broker.clock", "worker_clock"):
        monkeypatch.setattr(f"topology.faust.kafka.{module}.wall", slow)
    shop = Topology(unique("shop"))
    source = shop.source("orders", inspector=Inspector("id", "n"))
    shop.view("board", of=source, handler=lambda event: None)
    app = compile(shop, broker=broker.address, datadir=str(tmp_path))
    await agree_on_time(app)
    assert not slow.agreed  # no worker has run yet
    stamped = {"message.timestamp.type": "LogAppendTime"}
    make_topics(broker.address, NewTopic(shop.clock_topic, 1, 1, config=stamped))
    await agree_on_time(app)
    assert slow() > (time.time() - 3_600) * 1000


async def test_a_broker_that_gives_no_time_is_asked_once_a_minute(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class App:
        engine = SimpleNamespace(topology=Topology("shop"))

    asked = []

    async def none(*_: object, **__: object) -> list[str]:
        return []

    async def ask(app: object, *, tell: bool) -> bool:
        asked.append(app)
        return False

    monkeypatch.setattr("topology.faust.kafka.broker.clock.wall", Clock(time.time))
    monkeypatch.setattr("topology.faust.kafka.broker.clock.go_by_broker", ask)
    monkeypatch.setattr("topology.faust.kafka.clients.missing_topics", none)
    app, other = App(), App()
    for each in (app, app, other, app):
        await agree_on_time(each)
    assert asked == [app, other]
    monkeypatch.setattr("topology.faust.kafka.broker.clock.AGAIN", 0.0)
    await agree_on_time(app)
    assert asked == [app, other, app]
