"""The bare loop: what Python reaches on aiokafka and rocksdict with no framework at all.

All partitions in one loop, batch by batch: order, write RocksDB, send outputs and changelog as
ready-made record batches, commit the offsets. It does what it must and no more: it does not restore
its state, and after a crash RocksDB may be ahead of what was committed.

From the environment, besides what every program is told: PART and PARTS, the number of this program
among so many that share the partitions; 0 and 1 where nothing is said.
"""

import asyncio
import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any

import orjson
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.errors import TopicAlreadyExistsError
from rocksdict import Options, Rdict, WriteBatch

from bench.job import Job, job

Row = tuple[bytes, bytes | None]
BATCH = 8000


class Order:
    """Progress and waiting events of the streams; the memory is what counts, RocksDB a copy."""

    def __init__(self, table: Rdict) -> None:
        self._table = table
        self._last: dict[bytes, int] = {}
        self._waiting: dict[bytes, dict[int, bytes]] = {}

    def take(self, records: Sequence[Any]) -> tuple[list[Row], dict[bytes, bytes | None]]:
        """A partition's records → (outputs in order, changed rows: None deletes)."""
        outputs: list[Row] = []
        rows: dict[bytes, bytes | None] = {}
        lasts, all_waiting = self._last, self._waiting
        for record in records:
            key, value = record.key, record.value
            sequence = orjson.loads(value)["seq"]
            last = lasts.get(key)
            if last is None:
                stored = self._table.get(key)
                last = int.from_bytes(stored, "big") if stored else 0
            if sequence <= last:
                continue
            waiting = all_waiting.get(key)
            if sequence != last + 1:
                if waiting is None:
                    waiting = all_waiting[key] = {}
                if sequence not in waiting:
                    waiting[sequence] = value
                    rows[b"%b\0%d" % (key, sequence)] = value
                continue
            outputs.append((key, value))
            last = sequence
            if waiting:
                while (value := waiting.pop(last + 1, None)) is not None:
                    last += 1
                    outputs.append((key, value))
                    rows[b"%b\0%d" % (key, last)] = None
                if not waiting:
                    del all_waiting[key]
            lasts[key] = last
            rows[key] = last.to_bytes(8, "big")
        batch = WriteBatch(raw_mode=True)
        for row, content in rows.items():
            if content is None:
                batch.delete(row)
            else:
                batch.put(row, content)
        self._table.write(batch)
        return outputs, rows


async def send(
    producer: AIOKafkaProducer, topic: str, partition: int, rows: Iterable[Row]
) -> list[Any]:
    """Send rows as full record batches; return the futures of their acknowledgements."""
    sent = []
    batch = producer.create_batch()
    for key, value in rows:
        if batch.append(key=key, value=value, timestamp=None) is None:
            batch.close()
            sent.append(await producer.send_batch(batch, topic, partition=partition))
            batch = producer.create_batch()
            batch.append(key=key, value=value, timestamp=None)
    if batch.record_count():
        batch.close()
        sent.append(await producer.send_batch(batch, topic, partition=partition))
    return sent


async def run(work: Job) -> None:
    """Do the job until the process is ended."""
    part, parts = int(os.environ.get("PART", "0")), int(os.environ.get("PARTS", "1"))
    once = work.guarantee == "exactly_once"
    changelog = f"{work.group}-changelog"
    admin = AIOKafkaAdminClient(bootstrap_servers=work.broker)
    await admin.start()
    compact = {"cleanup.policy": "compact"}
    with suppress(TopicAlreadyExistsError):
        await admin.create_topics([NewTopic(changelog, work.partitions, 1, topic_configs=compact)])
    await admin.close()
    consumer = AIOKafkaConsumer(
        bootstrap_servers=work.broker,
        group_id=work.group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        isolation_level="read_committed",
        max_partition_fetch_bytes=4 << 20,
    )
    producer = AIOKafkaProducer(
        bootstrap_servers=work.broker,
        transactional_id=f"{work.group}-{part}" if once else None,
        linger_ms=5,
        max_batch_size=1 << 20,
    )
    options = Options(raw_mode=True)
    options.create_if_missing(True)
    order = Order(Rdict(str(work.datadir / "table"), options))
    if parts == 1:
        consumer.subscribe([work.input])
    else:
        # Nobody's partitions may move: the state would not.
        mine = range(part, work.partitions, parts)
        consumer.assign([TopicPartition(work.input, number) for number in mine])
    await producer.start()
    await consumer.start()
    while True:
        fetched = await consumer.getmany(timeout_ms=200, max_records=BATCH)
        if not fetched:
            continue
        if once:
            await producer.begin_transaction()
        sent = []
        for partition, records in fetched.items():
            outputs, rows = order.take(records)
            sent += await send(producer, work.output, partition.partition, outputs)
            sent += await send(producer, changelog, partition.partition, rows.items())
        offsets = {partition: records[-1].offset + 1 for partition, records in fetched.items()}
        await asyncio.gather(*sent)
        if once:
            await producer.send_offsets_to_transaction(offsets, work.group)
            await producer.commit_transaction()
        else:
            await consumer.commit(offsets)


if __name__ == "__main__":
    asyncio.run(run(job()))
