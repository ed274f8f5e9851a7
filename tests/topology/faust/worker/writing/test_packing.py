"""Records on their way to Kafka: who waits for all of them hears of the first that fails."""

import asyncio
import gc
from typing import Any

import pytest
from aiokafka.errors import ProducerFenced

from topology.faust.worker.writing.packing import RecordPacker


class Producer:
    """Is fenced as soon as it has taken a batch."""

    async def send_batch(self, batch: Any, topic: str, *, partition: int) -> Any:
        sent = asyncio.get_running_loop().create_future()
        sent.set_exception(ProducerFenced())
        return sent


class Batch:
    def close(self) -> None: ...


async def test_batches_behind_one_that_failed_leave_no_tracebacks_in_the_log() -> None:
    told = list[dict[str, Any]]()
    asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context))
    packer: Any = RecordPacker(Producer(), {}, None)  # type: ignore[arg-type]
    sent = [await packer._send(Batch(), "t", 0, 1) for _ in range(2)]
    with pytest.raises(ProducerFenced):
        await sent[0].future
    await asyncio.sleep(0)  # the others' callbacks
    del sent
    gc.collect()
    assert told == []
