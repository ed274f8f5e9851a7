"""Run a topology with Faust: live, on Kafka, with durable tables and exactly-once commit units."""

from topology.diagnostics.explain import account_text, ledger_text
from topology.faust.app import App, compile
from topology.faust.inspection import (
    NotThere,
    Tallies,
    Timeouts,
    commands,
    explain,
    gaps,
    parked,
    timeouts,
    views,
)
from topology.faust.operation.many import Choice, many
from topology.faust.settings import Guarantee, Settings

__all__ = [
    "App",
    "Choice",
    "Guarantee",
    "NotThere",
    "Settings",
    "Tallies",
    "Timeouts",
    "account_text",
    "commands",
    "compile",
    "explain",
    "gaps",
    "ledger_text",
    "many",
    "parked",
    "timeouts",
    "views",
]
