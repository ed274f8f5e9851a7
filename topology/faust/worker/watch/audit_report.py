"""Writes what the watchdog has seen to the view's audit topic, where `explain` finds it."""

import asyncio
from typing import Any

from aiokafka import AIOKafkaProducer
from mode import get_logger

from topology.declaration.view import View
from topology.faust.kafka.clients import connection
from topology.faust.worker.watch.watchdog import Blocked
from topology.model.ending import wait_for_stop
from topology.model.errors import described

logger = get_logger(__name__)

SECONDS = 20.0
"""How long writing a report may take."""


def audit_reporter(app: Any) -> Any:
    """A function that writes a record, in a loop of its own: the worker's is what is blocked."""

    def tell(view: View, blocked: Blocked) -> None:
        try:
            asyncio.run(asyncio.wait_for(_write(app, view, blocked), SECONDS))
        except Exception as error:
            logger.warning(
                "the report could not be written to %s: %s", view.audit_topic, described(error)
            )

    return tell


async def _write(app: Any, view: View, blocked: Blocked) -> None:
    key, value, headers = blocked.record()
    producer = AIOKafkaProducer(**connection(app), acks="all")
    try:
        await producer.start()
        await producer.send_and_wait(
            view.audit_topic, value, key=key, headers=headers, timestamp_ms=blocked.when
        )
    finally:
        await wait_for_stop(producer.stop())
