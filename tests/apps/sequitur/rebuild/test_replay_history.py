"""A rebuild from the replay log, where the source topic no longer has its head."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import orjson
import pytest
from aiokafka import AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, RecordsToDelete
from pyspark.sql import SparkSession

from sequitur.kafka.options import OptionError
from sequitur.rebuild.build import Build, check_history
from sequitur.rebuild.plan import Plan, Request, WorkFolder
from sequitur.replay.replay_file import read_replay_file
from stores.replay import CapturedMessage
from tests.conftest import BrokerAddress
from topology import Event, Inspector, Topology, Upsert
from topology.faust.worker.snapshot import Snapshot

MESSAGES, KEPT, STREAMS = 60, 11, 4


def board(event: Event, state: dict[str, Any]) -> Any:
    yield Upsert("board", key={"id": event.stream}, values={"n": event.sequence})


async def sent(kafka: dict[str, Any], topic: str, deleted: int) -> list[CapturedMessage]:
    """Fill a topic and delete its head. Returns all of it, as capture had it."""
    found = []
    async with AIOKafkaProducer(**kafka) as producer:
        for n in range(MESSAGES):
            value = orjson.dumps({"s": f"s{n % STREAMS}", "n": n // STREAMS + 1})
            where = await producer.send_and_wait(topic, value, partition=n % 2, timestamp_ms=n + 1)
            found.append(CapturedMessage(topic, where.partition, where.offset, value, n + 1))
    admin = AIOKafkaAdminClient(**kafka)
    await admin.start()
    before = {TopicPartition(topic, number): RecordsToDelete(deleted) for number in (0, 1)}
    await admin.delete_records(before)
    await admin.close()
    return found


@pytest.mark.integration
async def test_what_the_topic_no_longer_has_comes_from_the_replay_log(
    spark: SparkSession, broker: BrokerAddress, topic: Callable[..., str], tmp_path: Path
) -> None:
    name = topic("moves", 2)
    file = tmp_path / "replay.toml"
    file.write_text(f'[replay]\ndatabase = "sqlite:///{tmp_path}/log.db"\n')
    captured = await sent({"bootstrap_servers": broker.address}, name, KEPT)
    read_replay_file(file).log().append(name, captured, {})
    shop = Topology("shop")
    source = shop.source(name, inspector=Inspector(stream="s", sequence="n"), name="moves")
    shop.view("board", of=source, handler=board)
    spans = {name: {0: (KEPT, 30), 1: (KEPT, 30)}}

    def build(*history: str, streams: tuple[str, ...] = ()) -> Build:
        entries = tuple(map(check_history, history))
        request = Request(("board",), f"sqlite:///{tmp_path}/board.db", entries, streams)
        plan = Plan(request, Snapshot(100, {}, {}, {}, spans))
        live = {f"s{n}": b"%d" % (MESSAGES // STREAMS) for n in range(STREAMS)}
        limits: Any = SimpleNamespace(progress=lambda: {"board": live})
        folder = WorkFolder(tmp_path / "-".join([*streams, *(entry[:3] for entry in history)]))
        kafka = {"kafka.bootstrap.servers": broker.address}
        return Build(spark, shop, limits, plan, folder, kafka, lambda: None)

    def read(made: Build) -> list[tuple[int, int]]:
        frames = made.messages(source)
        return sorted((row.partition, row.offset) for frame in frames for row in frame.collect())

    everything = [(partition, offset) for partition in (0, 1) for offset in range(30)]
    made = build("sources", f"log:{file}")
    assert read(made) == everything
    assert len(read(build("sources"))) == 2 * (30 - KEPT)
    made.run(None)
    tally = made.tallies["board"]
    assert (tally.processed, tally.missing, tally.duplicate) == (MESSAGES, 0, 0)
    (made := build("sources", f"log:{file}", streams=("s1", "s2"))).run(None)
    tally = made.tallies["board"]
    assert (tally.processed, tally.missing) == (MESSAGES * 2 // STREAMS, 0)


def test_a_log_that_is_none_is_named_before_anything_begins(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No such file"):
        check_history(f"log:{tmp_path}/replay.toml")
    with pytest.raises(OptionError, match="or log:FILE"):
        check_history("log:")
