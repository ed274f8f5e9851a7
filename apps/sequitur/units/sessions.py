"""Sessions of foreign producers, as the log shows them: the id that Kafka gave an idempotent one.

A batch of the log has it, and what aiokafka makes of its records has not. So a server that names
units by session unpacks records with a header more. Nothing of the producers has to change.
"""

from dataclasses import replace
from typing import Any

from aiokafka.consumer import fetcher

from stores.kafka_records import TolerantRecords
from stores.units.kafka.records import StoredMessage

SESSION = "producer-session"
"""The header: an attribute of the delivered message."""


class _Batches:
    """A response's record batches; `session` is that of the batch in hand."""

    def __init__(self, records: Any) -> None:
        self._records = records
        self.has_next = records.has_next
        self.session: bytes | None = None

    def next_batch(self, *arguments: Any) -> Any:
        batch = self._records.next_batch(*arguments)
        producer = getattr(batch, "producer_id", None)
        self.session = None if producer is None or producer < 0 else b"session-%d" % producer
        return batch


class SessionRecords(TolerantRecords):
    """Records with a header that names their producer's session, where Kafka knows it."""

    def __setattr__(self, name: str, value: Any) -> None:
        # Also where a response is unpacked anew, for what in it is not UTF-8.
        super().__setattr__(name, _Batches(value) if name == "_records" else value)

    def _consumer_record(self, tp: Any, record: Any) -> Any:
        made, session = super()._consumer_record(tp, record), self._records.session
        if session is None:
            return made
        others = [each for each in made.headers if each[0] != SESSION]
        return replace(made, headers=(*others, (SESSION, session)))


def by_session(message: StoredMessage, _: bytes | None) -> str | None:
    """The naming by session."""
    return message.attributes.get(SESSION)


def show_sessions() -> None:
    """From here on all that this process reads has its producer's session."""
    fetcher.PartitionRecords = SessionRecords
