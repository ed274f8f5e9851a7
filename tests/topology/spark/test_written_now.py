"""What is written bears the time of writing, by which Kafka deletes what a topic need not keep."""

import asyncio
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.topology.spark import shops
from topology.faust.kafka.sending import Sending
from topology.spark.codec import OutgoingRecord
from topology.spark.settings import Settings
from topology.spark.slices import Emitted, Slices
from topology.spark.writer import OutputWriter

NOW = 1_800_000_000_000
"""When it is written, whenever that was made which is."""


class _Batch:
    def __init__(self, times: list[int | None]) -> None:
        self._times = times

    def append(self, *, timestamp: int | None, **record: Any) -> object:
        self._times.append(timestamp)
        return record

    def close(self) -> None:
        """Nothing comes behind it."""


class _Producer:
    """times: the timestamps of what was sent."""

    def __init__(self) -> None:
        self.times: list[int | None] = []

    def create_batch(self) -> _Batch:
        return _Batch(self.times)

    async def send_batch(self, batch: _Batch, topic: str, partition: int) -> None:
        """The broker has it."""

    async def send(self, topic: str, value: Any, *, timestamp_ms: Any = None, **more: Any) -> Any:
        self.times.append(timestamp_ms)
        return asyncio.sleep(0)


def test_a_batch_that_is_run_again_days_later_is_not_written_with_the_time_it_was_first_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time, "time", lambda: NOW / 1000)
    writer: Any = OutputWriter(Settings("broker:9093", str(tmp_path)), shops.topology)
    writer._producer = producer = _Producer()
    sent = [OutgoingRecord("shop.board", 0, 1, b"a", b"{}", [])]
    asyncio.run(writer._send("shop.board", 0, sent))
    writer.close()
    assert producer.times == [NOW]


def test_what_a_rebuild_sends_again_is_not_written_with_the_times_of_its_history() -> None:
    sending: Any = Sending(None)
    sending._producer = producer = _Producer()
    sending.send([Emitted("log", b"a", b"{}", [])])
    sending._loop.close()
    assert producer.times == [None], "the producer's own clock"


def test_slices_that_still_have_those_times_can_be_read(tmp_path: Path) -> None:
    slices = Slices(str(tmp_path))
    slices.write(0, [Emitted("log", b"a", b"{}", [("h", b"1")])], dict)
    (file,) = tmp_path.glob("slice-*.arrow")
    with pa.ipc.open_file(file) as reader:
        table = reader.read_all()
    old = table.add_column(6, "timestamp", pa.array([5], pa.int64()))
    with pa.ipc.new_file(file, old.schema) as made:
        made.write_table(old)
    assert list(slices.read(0)) == [[Emitted("log", b"a", b"{}", [("h", b"1")])]]
