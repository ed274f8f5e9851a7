"""The inbox of a consumer: each message once, in order, in the transaction of what it causes."""

from stores.db.engines import open_engine
from stores.inbox._two_phase import two_phase_delivery
from stores.inbox.async_delivery import adelivery
from stores.inbox.commands import parked, redrive, unpark
from stores.inbox.inbox import Inbox
from stores.inbox.message import InboxError
from stores.message import Message

__all__ = [
    "Inbox",
    "InboxError",
    "Message",
    "adelivery",
    "open_engine",
    "parked",
    "redrive",
    "two_phase_delivery",
    "unpark",
]
