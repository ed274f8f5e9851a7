"""Messages to try rules with: lines of a file, or what a topic has."""

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

from aiokafka import AIOKafkaConsumer, TopicPartition

import stores.kafka_records  # noqa: F401  # header names that are not UTF-8
from topology.model.ending import wait_for_stop
from topology.model.errors import DeclarationError
from topology.model.event import Message, Record
from topology.model.large import MESSAGE_BYTES

STANDARD_INPUT = "-"
_MOST = MESSAGE_BYTES + 3
"""Bytes that are read of a message: more than it may have, and the end of its line."""


def of_file(path: Path, topic: str, whole: bool = False) -> Iterator[Message]:
    """The messages of a file, or of standard input: one a line, or all of it is one.

    Of one that is larger than any message may be, the beginning comes, which no module reads.

    Args:
        path: the file; `-` for standard input.
        topic: from which they are said to come.
        whole: whether the file is one message.
    """
    standard = str(path) == STANDARD_INPUT
    with sys.stdin.buffer if standard else path.open("rb") as file:
        if whole:
            yield Record(topic, 0, 0, None, file.read(_MOST))
            return
        for number, line in enumerate(_lines(file)):
            if content := line.rstrip(b"\r\n"):
                yield Record(topic, 0, number, None, content)


def _lines(file: BinaryIO) -> Iterator[bytes]:
    while line := file.readline(_MOST):
        yield line
        while len(line) == _MOST and not line.endswith(b"\n"):  # the rest of it
            line = file.readline(_MOST)


async def of_topic(
    kafka: Mapping[str, Any], topic: str, most: int, only: tuple[int, int] | None = None
) -> list[Message]:
    """The first messages of a topic.

    Args:
        kafka: arguments of aiokafka's clients.
        topic: its name.
        most: how many of each partition.
        only: (partition, offset) of the one message to read.

    Raises:
        DeclarationError: the topic, or the message, is not there.
        KafkaError: Kafka cannot be reached.
    """
    consumer = AIOKafkaConsumer(
        topic, **kafka, enable_auto_commit=False, isolation_level="read_committed"
    )
    await consumer.start()
    try:
        numbers = sorted(consumer.partitions_for_topic(topic) or ())
        if only is not None:
            numbers = [number for number in numbers if number == only[0]]
        if not numbers:
            raise DeclarationError(f"topic {topic!r} is not there, or has no such partition")
        consumer.unsubscribe()
        found: list[Message] = []
        for number in numbers:
            at = TopicPartition(topic, number)
            found += await _of_partition(consumer, at, most, only)
        if only is not None and not found:
            raise DeclarationError(f"{topic}/{only[0]} has no message at offset {only[1]}")
        return found
    finally:
        await wait_for_stop(consumer.stop())


async def _of_partition(
    consumer: Any, at: TopicPartition, most: int, only: tuple[int, int] | None
) -> list[Message]:
    consumer.assign([at])
    first: int = (await consumer.beginning_offsets([at]))[at]
    end: int = (await consumer.end_offsets([at]))[at]
    if only is not None:
        if not first <= only[1] < end:
            return []
        first, end, most = only[1], only[1] + 1, 1
    consumer.seek(at, first)
    found: list[Message] = []
    while len(found) < most and await consumer.position(at) < end:
        records = (await consumer.getmany(at, timeout_ms=500)).get(at, ())
        found += [record for record in records if record.offset < end]
    return [each for each in found[:most] if only is None or each.offset == only[1]]
