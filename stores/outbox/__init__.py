"""Capture: messages go into a log in the transaction that changes what they tell of."""

from stores.db.engines import open_engine
from stores.db.sqlite_engine import begin_immediate
from stores.message import Message
from stores.outbox.capture import Outbox
from stores.outbox.log import MessageLog
from stores.outbox.message import Draft, MessageLogError, MessageRefused, Page, Position
from stores.outbox.ranges import SequenceRange

__all__ = [
    "Draft",
    "Message",
    "MessageLog",
    "MessageLogError",
    "MessageRefused",
    "Outbox",
    "Page",
    "Position",
    "SequenceRange",
    "begin_immediate",
    "open_engine",
]
