"""Inspects what is durable of a topology: nothing is stopped, and no worker is needed."""

from topology.faust.inspection.accounts import explain
from topology.faust.inspection.cannot_answer import CannotAnswer
from topology.faust.inspection.command_log import commands
from topology.faust.inspection.durable import TopicMissing
from topology.faust.inspection.gap_ledger import gaps
from topology.faust.inspection.parked_streams import parked
from topology.faust.inspection.suggested_timeouts import SuggestedTimeouts, suggest_timeouts
from topology.faust.inspection.tallies import ViewCounts, views

__all__ = [
    "CannotAnswer",
    "SuggestedTimeouts",
    "TopicMissing",
    "ViewCounts",
    "commands",
    "explain",
    "gaps",
    "parked",
    "suggest_timeouts",
    "views",
]
