"""The replay log: published messages that can be found, and published again."""

from stores.replay.errors import ReplayError
from stores.replay.log import Page, ReplayLog
from stores.replay.message import CapturedMessage, FieldKind
from stores.replay.query import Comparison, Condition, Query
from stores.replay.retention import Hole

__all__ = [
    "CapturedMessage",
    "Comparison",
    "Condition",
    "FieldKind",
    "Hole",
    "Page",
    "Query",
    "ReplayError",
    "ReplayLog",
]
