"""Which topics of a transaction are refused, for a reason that is their own."""

import asyncio
from collections import defaultdict
from collections.abc import Collection, Sequence
from typing import Any

from aiokafka.errors import (
    CorruptRecordException,
    InvalidTimestampError,
    InvalidTopicError,
    KafkaError,
    LeaderNotAvailableError,
    MessageSizeTooLargeError,
    NotLeaderForPartitionError,
    PolicyViolationError,
    RecordListTooLargeError,
    RecordTooLargeError,
    TopicAuthorizationFailedError,
    UnknownTopicOrPartitionError,
    UnsupportedForMessageFormatError,
)

TOO_LARGE = (MessageSizeTooLargeError, RecordTooLargeError, RecordListTooLargeError)
"""Of one record; the topic takes others."""
LEADERLESS = (LeaderNotAvailableError, NotLeaderForPartitionError)
"""Of a topic with a partition whose brokers are away; of all topics, it is the cluster that is."""
OF_TOPICS = (
    TopicAuthorizationFailedError,
    InvalidTimestampError,
    InvalidTopicError,
    PolicyViolationError,
    CorruptRecordException,
    UnknownTopicOrPartitionError,
    *LEADERLESS,
    UnsupportedForMessageFormatError,
)
LAST = 1.0
"""Seconds to wait for more refusals after the first one."""

Batch = tuple[str, asyncio.Future[Any]]
"""Topic, and what is done when the broker has said something of the batch."""


class RefusedTopics(Exception):
    """reasons: topic → why it takes nothing. by_size: those that do not take a certain record."""

    def __init__(self, reasons: dict[str, str], by_size: Collection[str] = ()) -> None:
        super().__init__(", ".join(sorted(reasons)))
        self.reasons, self.by_size = reasons, by_size


async def settled(producer: Any, batches: Sequence[Batch], seconds: float) -> None:
    """Wait until the broker has all batches of a transaction.

    Raises RefusedTopics, and KafkaError or TimeoutError where it is not a topic's doing. A topic
    that does not answer within `seconds`, though others do, is refused for that.
    """
    if not batches:
        return
    # It ends with the transaction, or when topics may not be part of it.
    ended = asyncio.ensure_future(asyncio.shield(producer._txn_manager.wait_for_transaction_end()))
    try:
        futures = {future for _, future in batches}
        await _all(futures, ended, seconds)
        errors = _errors(batches)
        if ended.done() and isinstance(error := ended.exception(), TopicAuthorizationFailedError):
            errors |= dict.fromkeys(_named(error), error)
        refused = {t: e for t, e in errors.items() if isinstance(e, (*OF_TOPICS, *TOO_LARGE))}
        if refused and all(isinstance(refused.get(topic), LEADERLESS) for topic, _ in batches):
            raise next(iter(refused.values()))
        if refused:
            by_size = {topic for topic, error in refused.items() if isinstance(error, TOO_LARGE)}
            raise RefusedTopics(
                {t: f"Kafka refuses it: {e!r}" for t, e in refused.items()}, by_size
            )
        for error in errors.values():
            raise error
        if ended.done():
            ended.result()
        _check_silent(batches, seconds)
    finally:
        ended.cancel()
        await asyncio.gather(ended, return_exceptions=True)


async def _all(
    futures: set[asyncio.Future[Any]], ended: asyncio.Future[Any], seconds: float
) -> None:
    """Wait for all futures, or for the end of the transaction, or for a failure and what follows.

    None of them is cancelled: they are the producer's.
    """
    for future in futures:
        future.add_done_callback(lambda done: done.cancelled() or done.exception())
    first = asyncio.wait(futures, timeout=seconds, return_when=asyncio.FIRST_EXCEPTION)
    waiting = asyncio.ensure_future(first)
    try:
        await asyncio.wait({waiting, ended}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        waiting.cancel()
    rest = {future for future in futures if not future.done()}
    if rest:
        await asyncio.wait(rest, timeout=min(LAST, seconds / 2))


def _errors(batches: Sequence[Batch]) -> dict[str, BaseException]:
    """Topic → what is wrong with it; what is of the topic itself before anything else."""
    found: dict[str, BaseException] = {}
    for topic, future in batches:
        if future.done() and not future.cancelled() and (error := future.exception()) is not None:
            known = found.get(topic)
            if known is None or not isinstance(known, (*OF_TOPICS, *TOO_LARGE)):
                found[topic] = error
    return found


def _named(error: KafkaError) -> Collection[str]:
    """The topics that an error of authorisation names."""
    (given,) = error.args or ((),)
    return {given} if isinstance(given, str) else set(given)


def _check_silent(batches: Sequence[Batch], seconds: float) -> None:
    by_topic: dict[str, bool] = defaultdict(lambda: True)
    for topic, future in batches:
        by_topic[topic] &= future.done()
    silent = [topic for topic, done in by_topic.items() if not done]
    if silent and len(silent) == len(by_topic):
        raise TimeoutError(f"no topic answered within {seconds:g} s")
    if silent:
        raise RefusedTopics(dict.fromkeys(silent, f"Kafka did not take it within {seconds:g} s"))
