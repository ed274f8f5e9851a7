"""The inbox of a consumer: each message once, in order, in the transaction of what it causes."""

from stores.db.engines import open_engine
from stores.inbox.async_delivery import adelivery
from stores.inbox.commands import InboxCounts, counts, gaps, parked, redrive, unpark
from stores.inbox.consumer import run_consumer
from stores.inbox.inbox import Inbox
from stores.inbox.message import Gap, InboxError, ParkedStream, ReceiveResult
from stores.inbox.two_phases import two_phase_batch, two_phase_delivery
from stores.message import Message

__all__ = [
    "Gap",
    "Inbox",
    "InboxCounts",
    "InboxError",
    "Message",
    "ParkedStream",
    "ReceiveResult",
    "adelivery",
    "counts",
    "gaps",
    "open_engine",
    "parked",
    "redrive",
    "run_consumer",
    "two_phase_batch",
    "two_phase_delivery",
    "unpark",
]
