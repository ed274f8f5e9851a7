"""Run a topology with Faust: live, on Kafka, with durable tables and exactly-once commit units."""

from topology.diagnostics.explain.account_text import account_text
from topology.diagnostics.explain.ledger_text import ledger_text
from topology.faust.app import App, compile
from topology.faust.inspection import Tallies, TopicMissing
from topology.faust.inspection.commands import commands
from topology.faust.inspection.explain import explain
from topology.faust.inspection.gaps import gaps
from topology.faust.inspection.parked import parked
from topology.faust.inspection.timeouts import Timeouts, timeouts
from topology.faust.inspection.views import views
from topology.faust.operation.bulk import StreamSelection, operate_many
from topology.faust.settings import Guarantee, Settings

__all__ = [
    "App",
    "Guarantee",
    "Settings",
    "StreamSelection",
    "Tallies",
    "Timeouts",
    "TopicMissing",
    "account_text",
    "commands",
    "compile",
    "explain",
    "gaps",
    "ledger_text",
    "operate_many",
    "parked",
    "timeouts",
    "views",
]
