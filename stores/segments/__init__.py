"""Units of work: what is consumed is saved in segments until all that came of it is published."""

from stores.segments.batching import BatchLimits
from stores.segments.chain import Backpressure
from stores.segments.consumer import SegmentConsumer
from stores.segments.damage import SkippedDamage, skip_damage
from stores.segments.day_marks import DayMarks
from stores.segments.days import Days, DayState
from stores.segments.errors import (
    DestinationDown,
    PublishRefused,
    SegmentDamaged,
    SegmentError,
    StaleOwner,
)
from stores.segments.failures import ErrorsAfter, FailurePolicy
from stores.segments.files import FileSegments
from stores.segments.intake import UnitIntake
from stores.segments.ledger import SegmentLedger
from stores.segments.message import InboundMessage, OutboundBatch, OutboundMessage, Pair, Place
from stores.segments.one_process import DirectConsumer
from stores.segments.one_transaction import TwoPhaseConsumer
from stores.segments.parked_pair import ParkedPair
from stores.segments.parking import ParkedUnits, Parking
from stores.segments.published_ids import PublishedIds
from stores.segments.publisher import Publisher
from stores.segments.rows import RowSegments
from stores.segments.store import SegmentStore
from stores.segments.transports.transport import Inbound, Outbound, Recognising

__all__ = [
    "Backpressure",
    "BatchLimits",
    "DayMarks",
    "DayState",
    "Days",
    "DestinationDown",
    "DirectConsumer",
    "ErrorsAfter",
    "FailurePolicy",
    "FileSegments",
    "Inbound",
    "InboundMessage",
    "Outbound",
    "OutboundBatch",
    "OutboundMessage",
    "Pair",
    "ParkedPair",
    "ParkedUnits",
    "Parking",
    "Place",
    "PublishRefused",
    "PublishedIds",
    "Publisher",
    "Recognising",
    "RowSegments",
    "SegmentConsumer",
    "SegmentDamaged",
    "SegmentError",
    "SegmentLedger",
    "SegmentStore",
    "SkippedDamage",
    "StaleOwner",
    "TwoPhaseConsumer",
    "UnitIntake",
    "skip_damage",
]
