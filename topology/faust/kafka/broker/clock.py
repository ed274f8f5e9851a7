"""The broker's clock, which all workers of a group and those who look at them have in common.

A topic whose records the broker stamps itself tells it: what was written there a moment ago has the
time of the broker's machine.
"""

import asyncio
import math
import time
from typing import Any
from weakref import WeakKeyDictionary

from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError
from mode import get_logger

from topology.faust.kafka.worker_clock import wall
from topology.model.ending import wait_for_stop

logger = get_logger(__name__)

WORTH_TELLING = 5.0
"""Seconds that a machine's clock is wrong before somebody should know."""
PATIENCE = 10.0
"""Seconds to wait for the broker's answer; without one the machine's clock has to do."""
AGAIN = 60.0
"""Seconds until who looks at workers asks again for a time that it did not get."""
APPEND_TIME = 1
"""Kafka's number for a record that has the broker's time."""


_asked: WeakKeyDictionary[Any, float] = WeakKeyDictionary()
"""App → when it asked last."""


async def go_by_broker(app: Any, *, tell: bool = True) -> bool:
    """Let this process's clock go by the broker's. Returns whether it does now.

    Call it before anything is timed. tell: whether to log a machine's clock that is wrong.
    """
    from topology.faust.kafka.clients import connection

    topic = app.engine.topology.clock_topic
    producer = AIOKafkaProducer(**connection(app), acks=1)
    try:
        async with asyncio.timeout(PATIENCE):
            await producer.start()
            try:
                # The first one may have to wait for metadata, on the way back too.
                await producer.send_and_wait(topic, b"", partition=0)
                began = time.monotonic()
                found = await producer.send_and_wait(topic, b"", partition=0)
                took = time.monotonic() - began
            finally:
                await wait_for_stop(producer.stop())
    except (KafkaError, TimeoutError, OSError) as error:
        logger.warning("the clock is this machine's: topic %s: %s", topic, error or "no answer")
        return False
    if found.timestamp_type != APPEND_TIME:
        logger.warning(
            "the clock is this machine's: topic %s needs message.timestamp.type=LogAppendTime",
            topic,
        )
        return False
    ahead = wall.go_by(found.timestamp / 1000 + took / 2)
    if tell and abs(ahead) > WORTH_TELLING:
        logger.warning(
            "this machine's clock is %.0f s %s the broker's, which the worker goes by",
            abs(ahead),
            "ahead of" if ahead > 0 else "behind",
        )
    return True


async def agree_on_time(app: Any) -> None:
    """Let what looks at an app from outside go by the clock of its workers, if there were any."""
    from topology.faust.kafka.clients import missing_topics

    if wall.agreed or time.monotonic() < _asked.get(app, -math.inf) + AGAIN:
        return
    if not await missing_topics(app, [app.engine.topology.clock_topic]):
        _asked[app] = time.monotonic()
        await go_by_broker(app, tell=False)
