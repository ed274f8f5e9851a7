"""Inspects what is durable of a topology: nothing is stopped, and no worker is needed."""

from topology.faust.inspection.cannot_answer import CannotAnswer
from topology.faust.inspection.commands import commands
from topology.faust.inspection.durable import TopicMissing
from topology.faust.inspection.explain import explain
from topology.faust.inspection.gaps import gaps
from topology.faust.inspection.parked import parked
from topology.faust.inspection.timeouts import Timeouts, timeouts
from topology.faust.inspection.views import Tallies, views

__all__ = [
    "CannotAnswer",
    "Tallies",
    "Timeouts",
    "TopicMissing",
    "commands",
    "explain",
    "gaps",
    "parked",
    "timeouts",
    "views",
]
