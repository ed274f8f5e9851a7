"""The queue of units: who may have which message, and what is complete. Pure: no I/O, no clock."""

from stores.units.queue.changes import (
    AdministrationRecord,
    Departure,
    RowKey,
    RowValue,
    UnitChanges,
    UnitMark,
)
from stores.units.queue.handover import Handover, MovedAway
from stores.units.queue.message import EVERY, NO_ATTRIBUTES, Delivery, Filter, Outcome, UnitMessage
from stores.units.queue.settings import QueueSettings
from stores.units.queue.status import UnitStatus
from stores.units.queue.unit_queue import UnitQueue

__all__ = [
    "EVERY",
    "NO_ATTRIBUTES",
    "AdministrationRecord",
    "Delivery",
    "Departure",
    "Filter",
    "Handover",
    "MovedAway",
    "Outcome",
    "QueueSettings",
    "RowKey",
    "RowValue",
    "UnitChanges",
    "UnitMark",
    "UnitMessage",
    "UnitQueue",
    "UnitStatus",
]
