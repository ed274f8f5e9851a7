"""Kafka's transactions: a producer whose transaction has failed says what ended it.

aiokafka learns beside what its caller does that a producer is fenced, or that a transaction failed.
Whatever the caller does next then raises IllegalOperation ("not in transaction") or an
AssertionError ("invalid state transition"): no KafkaErrors, and nothing that tells a producer that
was fenced from a fault of the program. Importing this lets each of these calls raise the error that
ended the transaction.
"""

import copy
from typing import Any

from aiokafka.producer.transaction_manager import TransactionManager, TransactionState

_FAILED = (TransactionState.ABORTABLE_ERROR, TransactionState.FATAL_ERROR)
_transition_to = TransactionManager._transition_to


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


TransactionManager.is_in_transaction = _is_in_transaction
TransactionManager._transition_to = _transition
