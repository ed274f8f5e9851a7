"""Rebuilding a view from history, without I/O: sorted streams in, records for a read store out."""

from topology.view_rebuild.limit import Limit, limit_of
from topology.view_rebuild.rebuild import HistoryPart, Rebuild
from topology.view_rebuild.tally import Tally
from topology.view_rebuild.view_rebuild import CannotRebuild, Rebuilt

__all__ = ["CannotRebuild", "HistoryPart", "Limit", "Rebuild", "Rebuilt", "Tally", "limit_of"]
