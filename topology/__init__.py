"""Sequitur's topology DSL and engine: declare sources and views, and see their events in order."""

from typing import TYPE_CHECKING, Any

from topology.declaration.describe import Description
from topology.declaration.orders import Order, contiguous, linked, monotonic
from topology.declaration.policies import (
    ErrorPolicy,
    GapTime,
    Latenesses,
    adaptive,
    advance,
    ask,
    halt,
    late_topic,
    park,
    rebuild_stream,
    redeliver,
    retry,
    skip,
    spill,
    wait,
)
from topology.declaration.source import Source
from topology.declaration.starts import earliest_seen, first, opened_by
from topology.declaration.topology import Topology
from topology.declaration.view import View
from topology.diagnostics.suggest import Suggestion, suggest_timeouts
from topology.inspectors import (
    CloudEvents,
    Debezium,
    DebeziumTransactions,
    Headers,
    Inspector,
    first_of,
)
from topology.inspectors.fields import header, key
from topology.inspectors.inspector import Inspected
from topology.inspectors.normalise import sequence_number, stream_id
from topology.model.batches import Batch
from topology.model.changes import Delete, Emit, Output, Upsert
from topology.model.column_types import decimal
from topology.model.counts import Counts
from topology.model.errors import DeclarationError, HandlerError, Malformed
from topology.model.event import Event, Message, Record
from topology.model.pulled import PulledEvent, PulledHandler, pulled
from topology.model.table import Table
from topology.model.typed import Cells, State
from topology.ordered_commit import Touched, wait_and_commit, wait_and_roll_back

if TYPE_CHECKING:
    from topology.testing import TopologyTestDriver

__all__ = [
    "Batch",
    "Cells",
    "CloudEvents",
    "Counts",
    "Debezium",
    "DebeziumTransactions",
    "DeclarationError",
    "Delete",
    "Description",
    "Emit",
    "ErrorPolicy",
    "Event",
    "GapTime",
    "HandlerError",
    "Headers",
    "Inspected",
    "Inspector",
    "Latenesses",
    "Malformed",
    "Message",
    "Order",
    "Output",
    "PulledEvent",
    "PulledHandler",
    "Record",
    "Source",
    "State",
    "Suggestion",
    "Table",
    "Topology",
    "TopologyTestDriver",
    "Touched",
    "Upsert",
    "View",
    "adaptive",
    "advance",
    "ask",
    "contiguous",
    "decimal",
    "earliest_seen",
    "first",
    "first_of",
    "halt",
    "header",
    "key",
    "late_topic",
    "linked",
    "monotonic",
    "opened_by",
    "park",
    "pulled",
    "rebuild_stream",
    "redeliver",
    "retry",
    "sequence_number",
    "skip",
    "spill",
    "stream_id",
    "suggest_timeouts",
    "wait",
    "wait_and_commit",
    "wait_and_roll_back",
]


def __getattr__(name: str) -> Any:
    """The test driver, only when asked for: the core itself needs no store."""
    if name == "TopologyTestDriver":
        from topology.testing import TopologyTestDriver

        return TopologyTestDriver
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
