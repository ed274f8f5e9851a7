"""Kafka's transactions: a producer whose transaction has failed says what ended it.

aiokafka learns beside what its caller does that a producer is fenced, or that a transaction failed.
Whatever the caller does next then raises IllegalOperation ("not in transaction") or an
AssertionError ("invalid state transition"): no KafkaErrors, and nothing that tells a producer that
was fenced from a fault of the program. Importing this lets each of these calls raise the error that
ended the transaction.

A producer without transactions numbers its batches too, so that the broker takes each once. Where
it refuses one, all that follow would be out of order to it, for ever: the producer goes on under
another id, by which they are counted anew.

A record that breaks a rule of its topic, such as one without a key where logs are compacted, has a
code that aiokafka does not know: it is an InvalidRecordError from here on.

And what ended it is not in the log twice: futures of aiokafka's own, which nobody looks at, and
batches that were in flight are no tracebacks there.
"""

import asyncio
import copy
from collections.abc import Callable
from typing import Any

from aiokafka import AIOKafkaProducer
from aiokafka.errors import ProducerFenced, UnknownError, kafka_errors
from aiokafka.producer.message_accumulator import MessageAccumulator, MessageBatch
from aiokafka.producer.sender import Sender
from aiokafka.producer.transaction_manager import (
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    PidAndEpoch,
    TransactionManager,
    TransactionState,
)
from aiokafka.util import create_future


class InvalidRecordError(UnknownError):  # type: ignore[misc]
    """A topic does not take a record."""

    errno, message = 87, "INVALID_RECORD"
    description = "the topic takes no such record: without a key, say, where it is compacted"


kafka_errors[InvalidRecordError.errno] = InvalidRecordError

_FAILED = (TransactionState.ABORTABLE_ERROR, TransactionState.FATAL_ERROR)
_transition_to = TransactionManager._transition_to
_begin, _fail = MessageAccumulator.__init__, MessageBatch.failure
_pop, _maybe_wait_for_pid = MessageAccumulator._pop_batch, Sender._maybe_wait_for_pid


def _what_ended(transactions: Any) -> BaseException:
    """A copy, so that no traceback grows with each raise."""
    return copy.copy(transactions.wait_for_transaction_end().exception())  # type: ignore[no-any-return]


def _is_in_transaction(self: Any) -> bool:
    """Whether one is under way. Raises KafkaError if it failed."""
    if self.state in _FAILED:
        raise _what_ended(self)
    return bool(self.state == TransactionState.IN_TRANSACTION)


def _transition(self: Any, target: TransactionState) -> None:
    """Go on to another state. Raises KafkaError if that cannot be since the transaction failed."""
    if self.state in _FAILED and not TransactionState.is_transition_valid(self.state, target):
        raise _what_ended(self)
    _transition_to(self, target)


async def wait_for_end(producer: AIOKafkaProducer) -> None:
    """Wait until no transaction of a producer is about to end, whatever comes of it.

    Who waited for a commit may have been cancelled, and the commit goes on: the next transaction
    cannot begin before it has ended.
    """
    ending = producer._txn_manager.wait_for_transaction_end()
    if ending is not None and not ending.done():
        await asyncio.wait([ending])


TransactionManager.is_in_transaction = _is_in_transaction
TransactionManager._transition_to = _transition


class _InFlight(set[Any]):
    """Batches: one that is about to be sent again when its producer fails is not among them."""

    remove = set.discard


def _accumulator(self: Any, *arguments: Any, **named: Any) -> None:
    _begin(self, *arguments, **named)
    self._pending_batches = _InFlight()


def _looked_at(fail: Callable[..., None]) -> Callable[..., None]:
    """Let what says that a transaction failed pass for looked at."""

    def failing(self: Any, *arguments: Any, **named: Any) -> None:
        fail(self, *arguments, **named)
        self.wait_for_transaction_end().exception()

    return failing


def _pop_batch(self: Any, partition: Any) -> Any:
    """Take a batch; one of a producer without transactions knows who has numbered it."""
    batch, numbering = _pop(self, partition), self._txn_manager
    idempotent = numbering is not None and numbering.transactional_id is None
    if idempotent and not hasattr(batch, "numbered"):  # sent again, it keeps its number
        batch.numbered = numbering, numbering.producer_id
    return batch


async def _wait_for_id(self: Any) -> None:
    """Before batches are taken: ask for another id where one was refused under this one."""
    numbering = self._txn_manager
    if numbering is not None and getattr(numbering, "refused", None) == numbering.producer_id:
        numbering.refused = None
        numbering._pid_and_epoch = PidAndEpoch(NO_PRODUCER_ID, NO_PRODUCER_EPOCH)
        numbering._pid_waiter = create_future()
        numbering._sequence_numbers.clear()
    await _maybe_wait_for_pid(self)


def _failure(self: Any, exception: BaseException) -> None:
    """Fail; of a producer that was fenced each call says so, and so nothing but what is awaited."""
    _fail(self, exception)
    if (numbered := getattr(self, "numbered", None)) is not None:
        numbering, id = numbered
        numbering.refused = id
    self._drain_waiter.exception()
    if isinstance(exception, ProducerFenced):
        for future, _ in self._msg_futures:
            future.cancelled() or future.exception()


MessageAccumulator.__init__ = _accumulator
MessageAccumulator._pop_batch = _pop_batch
Sender._maybe_wait_for_pid = _wait_for_id
MessageBatch.failure = _failure
TransactionManager.error_transaction = _looked_at(TransactionManager.error_transaction)
TransactionManager.fatal_error = _looked_at(TransactionManager.fatal_error)
