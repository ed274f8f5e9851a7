"""Rebuilding a view from history, without I/O: sorted streams in, records for a read store out."""

from topology.rebuilding.limit import Limit, limit_of
from topology.rebuilding.rebuild import HistoryPart, Rebuild
from topology.rebuilding.tally import Tally
from topology.rebuilding.view_rebuild import CannotRebuild, Rebuilt

__all__ = ["CannotRebuild", "HistoryPart", "Limit", "Rebuild", "Rebuilt", "Tally", "limit_of"]
