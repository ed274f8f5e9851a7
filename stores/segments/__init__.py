"""Units of work: what is consumed is saved in segments until all that came of it is published."""

from stores.segments.batching import BatchLimits, Closing, OpenBatch
from stores.segments.chain import Backpressure, Segment, SegmentChain
from stores.segments.consumer import SegmentConsumer, UnitIntake
from stores.segments.damage import SkippedDamage, skip_damage
from stores.segments.errors import (
    DestinationDown,
    PublishRefused,
    SegmentDamaged,
    SegmentError,
    StaleOwner,
)
from stores.segments.failures import ErrorsAfter, FailurePolicy
from stores.segments.files import FileSegments
from stores.segments.identity import Known, MessageIdentity, identify, numbered
from stores.segments.ledger import SegmentLedger, SegmentOwner
from stores.segments.message import InboundMessage, OutboundBatch, OutboundMessage, Pair, Place
from stores.segments.publisher import Publisher
from stores.segments.rows import RowSegments
from stores.segments.store import SegmentStore
from stores.segments.transports.transport import Inbound, Outbound
from stores.segments.writer import SegmentWriter

__all__ = [
    "Backpressure",
    "BatchLimits",
    "Closing",
    "DestinationDown",
    "ErrorsAfter",
    "FailurePolicy",
    "FileSegments",
    "Inbound",
    "InboundMessage",
    "Known",
    "MessageIdentity",
    "OpenBatch",
    "Outbound",
    "OutboundBatch",
    "OutboundMessage",
    "Pair",
    "Place",
    "PublishRefused",
    "Publisher",
    "RowSegments",
    "Segment",
    "SegmentChain",
    "SegmentConsumer",
    "SegmentDamaged",
    "SegmentError",
    "SegmentLedger",
    "SegmentOwner",
    "SegmentStore",
    "SegmentWriter",
    "SkippedDamage",
    "StaleOwner",
    "UnitIntake",
    "identify",
    "numbered",
    "skip_damage",
]
