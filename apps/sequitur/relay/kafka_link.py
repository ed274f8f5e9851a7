"""To Kafka: a batch is a transaction, and a relay that was replaced cannot write any more.

The transactional id says whose log it is: who opens the link is given the next epoch by the broker,
which aborts what an earlier one had begun and refuses what it still sends. Read the topics with
isolation.level=read_committed.
"""

import asyncio
import logging
import re
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Sequence
from functools import lru_cache
from typing import Any

from aiokafka import AIOKafkaProducer
from aiokafka.errors import InvalidProducerEpoch, KafkaConnectionError, KafkaError, ProducerFenced
from aiokafka.partitioner import murmur2
from aiokafka.producer import sender

import stores.kafka_topics  # noqa: F401  # no topic is made by asking for it
from sequitur.relay.kafka_refused import RefusedTopics, settled
from sequitur.relay.link import Answer, MissingRange, SendResult, Superseded, Unavailable
from sequitur.relay.rate_limit import RateLimit
from sequitur.relay.records import SEQUENCE, VOID, headers_of
from stores.message import Message
from topology.engine.commands.command import Command, encode_command
from topology.model.ending import wait_for_stop
from topology.model.printable import printable

logger = logging.getLogger(__name__)

BATCH_BYTES = 1 << 20
RETRY = 0.003
"""Seconds before a step of a transaction that the broker is not ready for is tried again. One that
follows another closely is asked to wait, and aiokafka's own 20 ms are most of what it takes."""
sender.BACKOFF_OVERRIDE = RETRY

Out = tuple[bytes | None, bytes | None, int, list[tuple[str, bytes | None]]]


class KafkaLink:
    """settings: of `AIOKafkaProducer`, bootstrap_servers among them. acknowledged: seconds within
    which a transaction has to be done; else it is aborted and its messages are sent again. views:
    those that may be told what is void, as TOPOLOGY.VIEW; nobody else's request causes a command.
    """

    def __init__(
        self,
        name: str,
        settings: dict[str, Any],
        *,
        acknowledged: float = 20.0,
        views: Collection[str] = (),
    ) -> None:
        self.name, self._settings, self._acknowledged = name, settings, acknowledged
        self._commands = frozenset(f"{view}.commands" for view in views)
        self._log = name
        self._told = RateLimit()
        self._producer: AIOKafkaProducer | None = None
        self._counts: dict[str, int] = {}
        self.leads: Callable[[], Awaitable[object]] | None = None
        """Raises if another relay leads by now: `send` asks when it has opened the link anew, as it
        has shut that one out then."""

    async def open(self, log: str = "") -> None:
        await self.close()
        self._log = _word(log) if log else self._log
        producer = AIOKafkaProducer(
            **{
                "transactional_id": f"sequitur-relay-{self._log}",
                "acks": "all",
                "max_batch_size": BATCH_BYTES,
                "max_request_size": 16 << 20,
                "request_timeout_ms": 10_000,
                "retry_backoff_ms": 10,
                "transaction_timeout_ms": 60_000,
                **self._settings,
            }
        )
        try:
            async with asyncio.timeout(30):
                await producer.start()
        except (KafkaError, OSError, TimeoutError) as error:
            await wait_for_stop(producer.stop())
            raise Unavailable(f"Kafka cannot be reached: {error!r}") from error
        self._producer = producer

    async def send(self, messages: Sequence[Message], answers: Sequence[Answer] = ()) -> SendResult:
        found, refused, topics = SendResult(), list[Message](), dict[str, str]()
        rest, left = list(messages), list(answers)
        while True:
            if self._producer is None:
                await self.open()
                if self.leads is not None:
                    await self.leads()
            try:
                topics |= (unknown := await self._transact(rest, left))
                refused += [message for message in rest if message.topic in unknown]
                break
            except RefusedTopics as error:
                # The broker has the transaction open still; who opens the link next ends it.
                await self.close()
                left = [answer for answer in left if answer.topic not in error.reasons]
                for topic, reason in error.reasons.items():
                    some = [message for message in rest if message.topic == topic]
                    rest = [message for message in rest if message.topic != topic]
                    if some and topic in error.by_size:
                        more = await self._narrow(some, reason)
                        refused += more.refused
                        topics |= more.topics
                        found.reason = found.reason or more.reason
                    elif some:
                        refused += some
                        topics[topic] = reason
                if not rest and not left:
                    break
        found.refused, found.topics = refused, topics
        return found

    async def _narrow(self, messages: list[Message], reason: str) -> SendResult:
        """One of these, all of one topic, is larger than its topic's max.message.bytes: find it."""
        if len(messages) == 1:
            return SendResult(messages, reason=reason)
        half = len(messages) // 2
        found = await self.send(messages[:half])
        stuck = {message.stream for message in found.refused}
        behind = [message for message in messages[half:] if message.stream in stuck]
        rest = [message for message in messages[half:] if message.stream not in stuck]
        more = await self.send(rest) if rest else SendResult()
        return SendResult(
            [*found.refused, *behind, *more.refused],
            reason=found.reason or more.reason,
            topics={**found.topics, **more.topics},
        )

    async def _transact(
        self, messages: Sequence[Message], answers: Sequence[Answer]
    ) -> dict[str, str]:
        """Send all but what is of topics that cannot be sent to: these, and why."""
        producer = self._producer
        assert producer is not None
        try:
            async with asyncio.timeout(self._acknowledged):
                unknown = await self._unknown({m.topic for m in messages})
                rest = [message for message in messages if message.topic not in unknown]
                others = [a for a in answers if not await self._unknown({a.topic})]
                if rest or others:
                    await producer.begin_transaction()
                    await settled(producer, await self._pack(rest, others), self._acknowledged / 2)
                    await producer.commit_transaction()
        except (ProducerFenced, InvalidProducerEpoch) as error:
            await self.close()
            raise Superseded(f"relay {self.name}: Kafka has fenced it: {error!r}") from error
        except (KafkaError, OSError, TimeoutError) as error:
            # Whether it is there is not known; who opens the link ends it one way or the other.
            await self.close()
            raise Unavailable(f"Kafka did not acknowledge: {error!r}") from error
        except BaseException:
            await self.close()
            raise
        return unknown

    async def _unknown(self, topics: set[str]) -> dict[str, str]:
        """Those of the topics that cannot be sent to, and why. Raises KafkaError."""
        assert self._producer is not None
        unknown: dict[str, str] = {}
        for topic in topics:
            if topic in self._counts:
                continue
            client = self._producer.client
            await client.add_topic(topic)
            found = client.cluster.partitions_for_topic(topic)
            if not found and not await client.force_metadata_update():
                raise KafkaConnectionError("no broker answers")
            found = client.cluster.partitions_for_topic(topic)
            if found:
                self._counts[topic] = len(found)
            elif topic in client.cluster.unauthorized_topics:
                unknown[topic] = "the relay is not authorised to describe it"
            else:
                unknown[topic] = "it does not exist: make it"
        return unknown

    async def _pack(
        self, messages: Sequence[Message], answers: Sequence[Answer]
    ) -> list[tuple[str, asyncio.Future[Any]]]:
        """Send all of them; returns what tells of each batch, and its topic."""
        # As they are written now: by the time of capture, after an outage that was longer than the
        # topic's retention, Kafka would delete them at once.
        stamp = int(time.time() * 1000)
        by_partition: dict[tuple[str, int], list[Out]] = defaultdict(list)
        for message in messages:
            key = message.stream.encode()
            at = (message.topic, _hash(key) % self._counts[message.topic])
            by_partition[at].append((key, message.content, stamp, headers_of(message)))
        for answer in answers:
            count = self._counts[answer.topic]
            number = _hash(answer.key) if answer.partition is None else answer.partition
            out: Out = (answer.key, answer.value, stamp, list(answer.headers))
            by_partition[answer.topic, number % count].append(out)
        sent: list[tuple[str, asyncio.Future[Any]]] = []
        for (topic, partition), records in by_partition.items():
            sent += [(topic, each) for each in await self._send(topic, partition, records)]
        return sent

    async def _send(self, topic: str, partition: int, records: list[Out]) -> list[Any]:
        assert self._producer is not None
        producer, sent = self._producer, []
        batch = producer.create_batch()
        for key, value, stamp, headers in records:
            given = {"key": key, "value": value, "timestamp": stamp, "headers": headers}
            if batch.append(**given) is None:
                batch.close()
                sent.append(await producer.send_batch(batch, topic, partition=partition))
                batch = producer.create_batch()
                batch.append(**given)
        batch.close()
        sent.append(await producer.send_batch(batch, topic, partition=partition))
        return sent

    async def void(self, missing: MissingRange, first: int, last: int) -> list[Answer]:
        key = missing.stream.encode()
        if not missing.commands:
            headers = (VOID, b"1")
            return [
                Answer(f"{missing.topic}.void", key, b"", ((SEQUENCE, b"%d" % at), headers))
                for at in range(first, last + 1)
            ]
        if missing.commands not in self._commands:
            if self._told(missing.commands):
                logger.warning(
                    "relay %s: a request in %s.resend asks for commands in %s, which no --view "
                    "names; it gets none. If it is a view of yours, start the relay with --view %s",
                    self.name, printable(missing.topic), printable(missing.commands),
                    printable(missing.commands.removesuffix(".commands")),
                )  # fmt: skip
            return []
        who = f"relay {self.name}, whose log says that it is void"
        return [
            Answer(
                missing.commands,
                key,
                encode_command(Command("skip", missing.view, missing.stream, at, who)),
                partition=missing.partition,
            )
            for at in range(first, last + 1)
        ]

    async def close(self) -> None:
        producer, self._producer = self._producer, None
        self._counts = {}
        if producer is not None:
            await wait_for_stop(producer.stop())


def _word(log: str) -> str:
    """A log's identity as Kafka's tools and rules of access can name it."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", log)


@lru_cache(100_000)
def _hash(key: bytes) -> int:
    """As Java's clients and aiokafka place keys."""
    return int(murmur2(key)) & 0x7FFFFFFF
