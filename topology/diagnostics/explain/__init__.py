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
from topology.diagnostics.explain.forecast import Next
from topology.diagnostics.explain.gaps import Ledger, OpenGap, open_gaps
from topology.diagnostics.explain.missing import Missing, missing
from topology.diagnostics.explain.remedies import Remedy
from topology.diagnostics.explain.stream_context import Around, Arrival, Away, SetAside
from topology.diagnostics.explain.tally import (
    Brought,
    Partition,
    ViewTally,
    brought,
    came_apart,
    came_since,
    tally,
)
from topology.diagnostics.explain.text import account_text, ledger_text, tally_text

__all__ = [
    "Account",
    "Around",
    "Arrival",
    "Away",
    "Brought",
    "Fold",
    "Ledger",
    "Missing",
    "Next",
    "OpenGap",
    "Partition",
    "Remedy",
    "SetAside",
    "ViewTally",
    "account",
    "account_text",
    "brought",
    "came_apart",
    "came_since",
    "ledger_text",
    "missing",
    "of_counts",
    "of_lanes",
    "of_stream",
    "of_waiting",
    "open_gaps",
    "tally",
    "tally_text",
    "waiting_rows",
]
