"""What a watch does where it goes on: after an error of Kafka, and when another process starts."""

import asyncio
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import orjson
import pytest
from aiokafka import TopicPartition
from aiokafka.errors import KafkaError
from aiokafka.structs import OffsetAndMetadata

from sequitur.alerts import watch as module
from sequitur.alerts.config import read_config
from sequitur.alerts.watch import Watch
from topology.model.event import Record

TOPIC = "shop.errors"
LONG_AGO = (int(time.time()) - 10 * 3600) * 1000


class Died(BaseException):
    """The process ends."""


class Broker:
    """Partitions that have records, and what is committed in them. failing: commits that fail."""

    def __init__(self) -> None:
        self.records: dict[TopicPartition, list[Record]] = {}
        self.committed: dict[TopicPartition, OffsetAndMetadata] = {}
        self.at: dict[TopicPartition, int] = {}
        self.commits, self.failing = 0, set[int]()
        self.stopped = asyncio.Event()

    def failed(self, *seconds: float, partition: int = 0) -> None:
        there = self.records.setdefault(TopicPartition(TOPIC, partition), [])
        for each in seconds:
            value = orjson.dumps({"view": "v", "error": f"E: {each}"})
            when = LONG_AGO + int(each * 1000)
            there.append(Record(TOPIC, partition, len(there), b"k", value, [], when))

    async def start(self) -> None:
        pass

    async def stop(self) -> None:
        pass

    def assign(self, places: Iterable[TopicPartition]) -> None:
        pass

    def seek(self, at: TopicPartition, offset: int) -> None:
        self.at[at] = offset

    async def position(self, at: TopicPartition) -> int:
        return self.at[at]

    async def beginning_offsets(self, places: Iterable[TopicPartition]) -> dict[Any, int]:
        return dict.fromkeys(places, 0)

    async def end_offsets(self, places: Iterable[TopicPartition]) -> dict[Any, int]:
        return {at: len(self.records[at]) for at in places}

    async def offsets_for_times(self, times: dict[TopicPartition, int]) -> dict[Any, Any]:
        found = {}
        for at, since in times.items():
            later = (each for each in self.records[at] if each.timestamp >= since)
            found[at] = next(later, None)
        return found

    async def getmany(
        self, *places: TopicPartition, timeout_ms: int, max_records: int
    ) -> dict[TopicPartition, list[Any]]:
        found = {at: self.records[at][self.at[at] :][:max_records] for at in places or self.records}
        for at, records in found.items():
            self.at[at] += len(records)
        if not places and not any(found.values()):
            self.stopped.set()
        return {at: records for at, records in found.items() if records}

    async def commit(self, offsets: dict[TopicPartition, OffsetAndMetadata]) -> None:
        self.commits += 1
        if self.commits in self.failing:
            raise KafkaError("no")
        self.committed |= offsets


class Process(Watch):
    """A process of them. told: the seconds of the alerts that something was carried out for."""

    def __init__(
        self, broker: Broker, tmp_path: Path, pattern: str, action: str = "", dies: int = 0
    ) -> None:
        file = tmp_path / "alerts.toml"
        file.write_text(
            f'topics = ["{TOPIC}"]\n[[pattern]]\nname = "p"\nactions = ["note"]\n{pattern}\n'
            f'[action.note]\ncommand = ["true"]\n{action}\n'
        )
        super().__init__(read_config(file), {}, everything=True)
        self.broker, self.told = broker, list[float]()

        async def carry_out(name: str, alert: Any) -> bool:
            if len(self.told) + 1 == dies:
                raise Died
            self.told.append((alert.last - LONG_AGO) / 1000)
            return True

        self.actions.carry_out = carry_out  # type: ignore[method-assign]

    async def _places(self) -> dict[TopicPartition, str]:
        return dict.fromkeys(self.broker.records, "id")

    async def _committed(self) -> dict[TopicPartition, OffsetAndMetadata]:
        return self.broker.committed

    async def until_all_is_read(self) -> list[float]:
        self.broker.stopped.clear()
        await self.run(self.broker.stopped)
        return self.told


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> Broker:
    found = Broker()
    monkeypatch.setattr(module, "AGAIN", 0)
    monkeypatch.setattr(module, "AIOKafkaConsumer", lambda **_: found)
    return found


EACH = 'quiet = "0"\nwithin = "1s"'


@pytest.mark.parametrize("failing", [{2}, {3}, {4}, {2, 3, 4}])
async def test_an_action_is_carried_out_once_though_a_commit_fails(
    failing: set[int], broker: Broker, tmp_path: Path
) -> None:
    broker.failed(1, 2)
    broker.failed(1.5, partition=1)
    broker.failing = failing
    assert await Process(broker, tmp_path, EACH).until_all_is_read() == [1, 1.5, 2]
    assert await Process(broker, tmp_path, EACH).until_all_is_read() == []


async def test_a_process_that_dies_in_an_action_repeats_no_other_one(
    broker: Broker, tmp_path: Path
) -> None:
    each = f'{EACH}\nsame = ["error"]'
    broker.failed(1, 9, 3)  # a clock that went back
    broker.failed(2, partition=1)
    with pytest.raises(Died):
        await Process(broker, tmp_path, each, dies=3).until_all_is_read()
    assert await Process(broker, tmp_path, each).until_all_is_read() == [9, 3]


async def test_what_it_is_told_to_stop_before_is_left_to_the_next_process(
    broker: Broker, tmp_path: Path
) -> None:
    broker.failed(1, 2, 3)
    process = Process(broker, tmp_path, EACH)
    carry_out = process.actions.carry_out

    async def and_stop(name: str, alert: Any) -> bool:
        broker.stopped.set()
        return await carry_out(name, alert)

    process.actions.carry_out = and_stop  # type: ignore[method-assign]
    assert await process.until_all_is_read() == [1]
    assert await Process(broker, tmp_path, EACH).until_all_is_read() == [2, 3]


async def test_no_more_than_most_within_a_time_over_a_restart(
    broker: Broker, tmp_path: Path
) -> None:
    most = 'most = 5\neach = "1h"'
    broker.failed(*range(20))
    assert len(await Process(broker, tmp_path, EACH, most).until_all_is_read()) == 5
    broker.failed(*range(300, 320))
    again = Process(broker, tmp_path, EACH, most)
    assert await again.until_all_is_read() == []
    assert again.actions.held_back == {"note": 20}
    broker.failed(3700)
    assert await again.until_all_is_read() == [3700]


async def test_what_is_read_again_goes_on_where_kafka_fails(
    broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    three = 'count = 3\nwithin = "1h"'
    monkeypatch.setattr(module, "READ", 1)
    broker.failed(1, 2)
    assert await Process(broker, tmp_path, three).until_all_is_read() == []
    broker.failed(3)
    broker.failing = {broker.commits + 2}
    assert await Process(broker, tmp_path, three).until_all_is_read() == [3]


async def test_another_process_is_quiet_for_no_longer(broker: Broker, tmp_path: Path) -> None:
    quiet, each = 'quiet = "5m"', 'most = 1000\neach = "3500s"'
    broker.failed(*range(0, 5110, 7))
    told = await Process(broker, tmp_path, quiet, each).until_all_is_read()
    assert told[-1] == 4816
    broker.failed(*range(5110, 6000, 7))
    assert (await Process(broker, tmp_path, quiet, each).until_all_is_read())[0] <= 4816 + 301


async def test_another_process_keeps_nothing_back_that_was_due(
    broker: Broker, tmp_path: Path
) -> None:
    """It began a time of quiet with what nobody had been told of."""
    pattern = 'count = 10\nwithin = "10m"\nquiet = "1h"'
    broker.failed(*range(0, 4381, 60))
    assert await Process(broker, tmp_path, pattern).until_all_is_read() == [540]
    broker.failed(*range(4440, 5401, 60))
    (told,) = await Process(broker, tmp_path, pattern).until_all_is_read()
    assert told <= 4680, "as the first one would have"


async def test_another_process_is_quiet_of_what_was_told_behind_a_silence(
    broker: Broker, tmp_path: Path
) -> None:
    broker.failed(100, 200)
    assert await Process(broker, tmp_path, 'quiet = "1h"').until_all_is_read() == [100]
    broker.failed(300, 3600, 3699, 3701)
    assert await Process(broker, tmp_path, 'quiet = "1h"').until_all_is_read() == [3701]


async def test_it_is_quiet_for_as_long_though_kafka_fails_and_topics_appear(
    broker: Broker, tmp_path: Path
) -> None:
    broker.failed(*range(9000))
    broker.failing = {15}
    process = Process(broker, tmp_path, 'count = 10\nwithin = "5m"\nquiet = "1h"')
    assert await process.until_all_is_read() == [9, 3618, 7227]
    broker.failed(9000, partition=1)
    broker.failed(*range(9001, 11000))
    assert await process.until_all_is_read() == [9, 3618, 7227, 10836]
