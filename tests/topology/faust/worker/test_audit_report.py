"""What a blocked handler's watchdog tells is written whole; what keeps it from that is one line."""

import asyncio
import logging
from types import SimpleNamespace
from typing import Any, ClassVar

import orjson
import pytest

from topology import Inspector, Topology
from topology.faust.worker.watch import audit_report
from topology.faust.worker.watch.watchdog import Blocked

WHEN = 1_700_000_000_000
BLOCKED = Blocked("board", "a\x1b", 3, WHEN, WHEN - 12_000, 12.0, 5.0, "host/7", "in handler")
topology = Topology("shop")
orders = topology.source("orders", inspector=Inspector("id", "n"))
topology.view("board", of=orders, handler=lambda event: None)
VIEW = topology.views["board"]


class FakeProducer:
    """Keeps what it is given. fails: the step at which it raises, or stands still."""

    fails = ""
    made: ClassVar[list["FakeProducer"]] = []

    def __init__(self, **settings: Any) -> None:
        self.settings, self.stopped = settings, False
        self.sent: list[tuple[str, bytes, dict[str, Any]]] = []
        self.made.append(self)

    async def start(self) -> None:
        await self._step("start")

    async def send_and_wait(self, topic: str, value: bytes, **more: Any) -> None:
        await self._step("send")
        self.sent.append((topic, value, more))

    async def stop(self) -> None:
        self.stopped = True

    async def _step(self, name: str) -> None:
        if self.fails == name:
            raise ConnectionError("no broker")
        if self.fails == f"{name} stands still":
            await asyncio.Event().wait()


@pytest.fixture
def tell(monkeypatch: pytest.MonkeyPatch) -> Any:
    FakeProducer.made.clear()
    monkeypatch.setattr(audit_report, "AIOKafkaProducer", FakeProducer)
    monkeypatch.setattr(audit_report, "connection", lambda app: {"bootstrap_servers": app.broker})
    monkeypatch.setattr(audit_report, "SECONDS", 600.0)
    return audit_report.audit_reporter(SimpleNamespace(broker="there:9092"))


def test_what_is_told_is_where_explain_looks_and_of_the_time_it_was_seen(tell: Any) -> None:
    tell(VIEW, BLOCKED)
    (producer,) = FakeProducer.made
    ((topic, value, more),) = producer.sent
    assert (topic, more["key"], more["timestamp_ms"]) == ("shop.audit", b"a\x1b", WHEN)
    assert more["headers"] == [("view", b"board")]
    body = orjson.loads(value)
    assert (body["sequence"], body["seconds"], body["name"]) == (3, 12.0, "blocked")
    assert producer.settings == {"bootstrap_servers": "there:9092", "acks": "all"}
    assert producer.stopped


@pytest.mark.parametrize("fails", ["start", "send", "start stands still", "send stands still"])
def test_what_cannot_be_told_ends_neither_the_watchdog_nor_leaves_a_client_behind(
    tell: Any, fails: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(FakeProducer, "fails", fails)
    monkeypatch.setattr(audit_report, "SECONDS", 0.05)
    with caplog.at_level(logging.WARNING):
        tell(VIEW, BLOCKED)
    assert "the report could not be written to shop.audit" in caplog.text
    (producer,) = FakeProducer.made
    assert producer.stopped
