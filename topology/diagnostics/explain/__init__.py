"""Why is this stream stuck? What durable state says about streams, gaps and views, as data first.

Pure: `topology/faust/inspection` reads the changelogs, offsets and topics.
"""

from topology.diagnostics.explain.account import Account, account
from topology.diagnostics.explain.fold import (
    Fold,
    of_counts,
    of_lanes,
    of_stream,
    of_waiting,
    waiting_rows,
)
from topology.diagnostics.explain.forecast import NextAction
from topology.diagnostics.explain.gaps import Ledger, OpenGap, open_gaps
from topology.diagnostics.explain.missing import Missing, missing
from topology.diagnostics.explain.remedies import Remedy
from topology.diagnostics.explain.source_totals import SourceTotals, route_totals, source_totals
from topology.diagnostics.explain.stream_context import (
    Arrival,
    PendingRedelivery,
    SetAside,
    StreamContext,
)
from topology.diagnostics.explain.stream_place import StreamPlace
from topology.diagnostics.explain.stream_text import account_facts, account_line, account_text
from topology.diagnostics.explain.tables_text import gaps_text, source_text, tally_text
from topology.diagnostics.explain.tally import (
    PartitionTally,
    ViewTally,
    came_apart,
    came_since,
    tally,
)
from topology.diagnostics.explain.waiting_streams import WaitingStreams, of_sequences

__all__ = [
    "Account",
    "Arrival",
    "Fold",
    "Ledger",
    "Missing",
    "NextAction",
    "OpenGap",
    "PartitionTally",
    "PendingRedelivery",
    "Remedy",
    "SetAside",
    "SourceTotals",
    "StreamContext",
    "StreamPlace",
    "ViewTally",
    "WaitingStreams",
    "account",
    "account_facts",
    "account_line",
    "account_text",
    "came_apart",
    "came_since",
    "gaps_text",
    "missing",
    "of_counts",
    "of_lanes",
    "of_sequences",
    "of_stream",
    "of_waiting",
    "open_gaps",
    "route_totals",
    "source_text",
    "source_totals",
    "tally",
    "tally_text",
    "waiting_rows",
]
