"""Looks at what is durable of a topology: nothing is stopped, and no worker is needed."""

from topology.faust.looks.durable import NotThere
from topology.faust.looks.explain import explain
from topology.faust.looks.gaps import gaps
from topology.faust.looks.timeouts import Timeouts, timeouts
from topology.faust.looks.views import Tallies, views

__all__ = ["NotThere", "Tallies", "Timeouts", "explain", "gaps", "timeouts", "views"]
