"""Recoveries that are asked for by a topic: each record is a request, and has one answer."""

import asyncio
import hashlib
import logging
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import orjson
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.errors import KafkaError
from pydantic import ValidationError
from sqlalchemy.exc import DataError, SQLAlchemyError

import stores.kafka_records  # noqa: F401  # header names that are not UTF-8
from sequitur.replay.server.models import RecoveryRequestModel
from sequitur.replay.server.service import Service
from stores.db.urls import said
from stores.replay import ReplayError
from topology.model.ending import wait_for_stop
from topology.model.errors import DeclarationError, first_of
from topology.model.printable import printable

logger = logging.getLogger(__name__)
ANSWERS = ".answers"
"""Behind the topic's name: the one of the answers."""
_LARGEST, _LONGEST_KEY = 1 << 18, 4_096
"""Bytes of a request: its answer, which says again what is asked for, is one message too."""
_RETRY = 2.0


class ControlTopic:
    """Takes requests from a topic; any number of servers share its partitions.

    A record gives the same recovery whenever it is read again. Who may write to the topic may ask.

    Args:
        service: what is done.
        kafka: arguments of aiokafka's clients.
        topic: of the requests; the answers' has `.answers` behind its name. Both are there before.

    Attributes:
        counts: requests that were "taken" and "refused".
    """

    def __init__(self, service: Service, kafka: Mapping[str, Any], topic: str) -> None:
        self._service, self._kafka, self._topic = service, dict(kafka), topic
        self.counts: Counter[str] = Counter()

    async def run(self, stopped: asyncio.Event) -> None:
        """Take requests until told to stop; what is away is tried again."""
        while not stopped.is_set():
            try:
                await self._take(stopped)
            except (KafkaError, SQLAlchemyError, TimeoutError) as error:
                logger.warning("requests of %s are tried again: %s", self._topic, said(error))
                with suppress(TimeoutError):
                    await asyncio.wait_for(stopped.wait(), _RETRY)

    async def _take(self, stopped: asyncio.Event) -> None:
        consumer = AIOKafkaConsumer(
            self._topic,
            **self._kafka,
            group_id=f"sequitur-replay-{self._topic}",
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            isolation_level="read_committed",
        )
        producer = AIOKafkaProducer(**self._kafka, enable_idempotence=True)
        try:
            await consumer.start()
            await producer.start()
            while not stopped.is_set():
                for place, records in (await consumer.getmany(timeout_ms=500)).items():
                    for record in records:
                        answer = await self._answer(record)
                        value, key = orjson.dumps(answer), record.key
                        key = None if key is not None and len(key) > _LONGEST_KEY else key
                        await producer.send_and_wait(self._topic + ANSWERS, value, key)
                        await consumer.commit({place: record.offset + 1})
                        self.counts["refused" if "error" in answer else "taken"] += 1
        finally:
            await wait_for_stop(consumer.stop())
            await wait_for_stop(producer.stop())

    async def _answer(self, record: Any) -> dict[str, Any]:
        """The recovery, or why there is none. Raises what may be over later."""
        where = f"{record.topic}/{record.partition}/{record.offset}"
        try:
            if record.value is None or len(record.value) > _LARGEST:
                raise ReplayError(f"a request is a JSON object of at most {_LARGEST} bytes")
            if record.key is not None and len(record.key) > _LONGEST_KEY:
                raise ReplayError(f"a request's key has at most {_LONGEST_KEY} bytes")
            asked = RecoveryRequestModel.model_validate_json(record.value, strict=True)
            # The time, too: a topic that is made anew begins with the same offsets.
            id = hashlib.sha256(f"{where}/{record.timestamp}".encode()).hexdigest()[:12]
            made = await self._service.recover(asked, id)
            return {"request": where, "recovery": made.model_dump()}
        except ValidationError as error:
            reason = first_of(error)
        except (ReplayError, DeclarationError) as error:
            reason = str(error)
        except DataError:
            reason = "the database takes no such value: is there a NUL in a text?"
        except (KafkaError, SQLAlchemyError, TimeoutError):
            raise
        except Exception:  # else it would end all requests
            logger.exception("request %s: a fault of Sequitur's", where)
            reason = "a fault of Sequitur's; the server's log says more"
        logger.warning("request %s is refused: %s", where, printable(reason, 400))
        return {"request": where, "error": printable(reason, 1_000)}
