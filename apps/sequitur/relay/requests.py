"""Requests to send messages again, as they come by Kafka: the topics `<topic>.resend`."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from aiokafka import AIOKafkaConsumer
from aiokafka.errors import KafkaError

from sequitur.relay.link import MissingRange
from sequitur.relay.rate_limit import RateLimit
from sequitur.relay.records import missing_of
from topology.model.ending import wait_for_stop

logger = logging.getLogger(__name__)

SUFFIX = ".resend"
_told = RateLimit()


async def requests(
    topics: Sequence[str], settings: dict[str, Any], ask: Callable[[Sequence[MissingRange]], None]
) -> None:
    """Read requests until it is cancelled, from now on: who gets no answer asks again."""
    from topology.faust.kafka.records import raw  # Faust, which no other part of a relay needs

    while True:
        consumer = AIOKafkaConsumer(
            *(topic + SUFFIX for topic in topics),
            **{
                "group_id": None,
                "auto_offset_reset": "latest",
                "isolation_level": "read_committed",
                "fetch_max_wait_ms": 200,
                "metadata_max_age_ms": 5_000,  # the topic may be made later
                "key_deserializer": raw,  # reads on behind headers that cannot be read
                **settings,
            },
        )
        try:
            await consumer.start()
            while True:
                for records in (await consumer.getmany(timeout_ms=500, max_records=500)).values():
                    ask([found for record in records if (found := _request(record)) is not None])
        except (KafkaError, OSError) as error:
            logger.warning("requests to send again cannot be read: %r", error)
            await asyncio.sleep(1)
        except Exception:
            logger.exception("requests to send again cannot be read")
            await asyncio.sleep(1)
        finally:
            with suppress(Exception):
                await wait_for_stop(consumer.stop())


def _request(record: Any) -> MissingRange | None:
    try:
        return missing_of(record.topic.removesuffix(SUFFIX), record.value)
    except ValueError as error:
        if _told(record.topic):
            logger.warning("%s at %d: %s", record.topic, record.offset, error)
        return None
