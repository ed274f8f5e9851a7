"""Stock faust-streaming: one event at a time, RocksDB tables, for `faust -A … worker`.

At least once only: in its exactly-once mode, what is sent to a topic that it does not read is
outside of the transaction.
"""

from typing import Any

import faust

from bench.job import job

work = job()
app = faust.App(
    work.group,
    broker=f"kafka://{work.broker}",
    datadir=str(work.datadir),
    store="rocksdb://?driver=rocksdict",
    topic_partitions=work.partitions,
    topic_replication_factor=1,
    topic_disable_leader=True,
    consumer_auto_offset_reset="earliest",
    value_serializer="json",
    # These make it faster.
    stream_wait_empty=False,
    stream_buffer_maxsize=16_384,
    broker_max_poll_records=5_000,
    producer_linger=0.02,
)
source = app.topic(work.input, key_type=bytes, key_serializer="raw", value_serializer="json")
output = app.topic(work.output, key_type=bytes, key_serializer="raw", value_serializer="json")
progress = app.Table("progress", default=int, key_type=bytes, partitions=work.partitions)
waiting = app.Table("waiting", partitions=work.partitions)


@app.agent(source)
async def resequence(events: Any) -> None:
    """Send what is next in its stream, keep what is early, drop what came before."""
    async for key, event in events.items():
        last, sequence = progress[key], event["seq"]
        if sequence <= last:
            continue
        stream = key.decode()
        if sequence != last + 1:
            slot = f"{stream}:{sequence}"
            if slot not in waiting:
                waiting[slot] = event
            continue
        await output.send(key=key, value=event)
        last = sequence
        while (event := waiting.get(slot := f"{stream}:{last + 1}")) is not None:
            del waiting[slot]
            await output.send(key=key, value=event)
            last += 1
        progress[key] = last
