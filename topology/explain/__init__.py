"""Why is this stream stuck? What durable state says about streams, gaps and views, as data first.

Pure: who reads the changelogs, offsets and topics gives what it found; see `topology/faust/looks`.
"""

from topology.explain.account import Account, account
from topology.explain.around import Around, Arrival, Away, SetAside
from topology.explain.fold import (
    Fold,
    of_counts,
    of_lanes,
    of_stream,
    of_waiting,
    waiting_rows,
)
from topology.explain.gaps import Ledger, OpenGap, open_gaps
from topology.explain.missing import Missing, missing
from topology.explain.outlook import Next
from topology.explain.remedies import Remedy
from topology.explain.tally import (
    Brought,
    Partition,
    ViewTally,
    brought,
    came_apart,
    came_since,
    tally,
)
from topology.explain.text import account_text, ledger_text, tally_text

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
