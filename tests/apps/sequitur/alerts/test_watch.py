"""Alerts over a real broker: told once, over restarts too."""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path

import orjson
import pytest
from aiokafka import AIOKafkaProducer

from sequitur.alerts.config import AlertsConfig, read_config
from sequitur.alerts.watch import Watch
from tests.conftest import BrokerAddress

pytestmark = pytest.mark.integration


def config(tmp_path: Path, topic: str) -> AlertsConfig:
    path = tmp_path / "alerts.toml"
    copy = f"cat >> {tmp_path}/alerts; echo >> {tmp_path}/alerts"
    path.write_text(
        f"""
name = "{topic}-alerts"
topics = ["{topic}"]
[[pattern]]
name = "refused"
same = ["exception"]
count = 3
within = "10m"
quiet = "0"
actions = ["note"]
[action.note]
command = ["sh", "-c", "{copy}"]
"""
    )
    return read_config(path)


async def test_an_alert_is_told_once_over_restarts(
    broker: BrokerAddress, topic: Callable[..., str], tmp_path: Path
) -> None:
    name = topic("errors", 1)
    kafka = {"bootstrap_servers": broker.address}
    noted, file = config(tmp_path, name), tmp_path / "alerts"
    file.touch()
    producer = AIOKafkaProducer(**kafka)
    await producer.start()

    async def fail(*exceptions: str, when: int | None = None) -> None:
        for each in exceptions:
            report = {"view": "v", "error": f"{each}: no", "traceback": "", "done": "advance"}
            await producer.send_and_wait(name, orjson.dumps(report), timestamp_ms=when)

    async def watched(alerts: int, *exceptions: str) -> list[str]:
        """What was told once a watch that starts anew has seen these, at least so many alerts."""
        watch, stopped = Watch(noted, kafka, everything=True), asyncio.Event()
        task = asyncio.create_task(watch.run(stopped))
        await fail(*exceptions)
        async with asyncio.timeout(60):
            while len(found := file.read_text().splitlines()) < alerts:
                assert not task.done()
                await asyncio.sleep(0.05)
        stopped.set()
        async with asyncio.timeout(60):
            await task
        return [orjson.loads(line)["group"]["exception"] for line in found if line]

    try:
        # Two of D are done when it goes away for hours; the third came minutes behind them.
        long_ago = int(time.time() * 1000) - 3 * 3600 * 1000
        await fail("D", "D", "E", "E", "E", when=long_ago)
        assert await watched(1) == ["E"]
        await fail("D", when=long_ago + 60_000)
        assert await watched(2) == ["E", "D"]
        assert await watched(3, "A", "B", "A", "A", "B") == ["E", "D", "A"]
        # The two of B are before the restart, the third behind it.
        assert await watched(4, "B") == ["E", "D", "A", "B"]
        assert await watched(5, "A", "C", "C", "C") == ["E", "D", "A", "B", "C"]
    finally:
        await producer.stop()
