"""Run a topology with Faust: live, on Kafka, with durable tables and exactly-once commit units."""

from topology.diagnostics.explain import account_text, gaps_text, tally_text
from topology.faust.app import App, compile
from topology.faust.inspection import (
    CannotAnswer,
    SuggestedTimeouts,
    TopicMissing,
    ViewCounts,
    commands,
    explain,
    gaps,
    parked,
    suggest_timeouts,
    views,
)
from topology.faust.inspection.auditing import audit
from topology.faust.operation.bulk import StreamSelection, operate_many
from topology.faust.operation.control import cancel, drop, halt, redrive, resume, skip, unpark
from topology.faust.operation.dead_events import redrive_dead
from topology.faust.operation.needed_topics import topics
from topology.faust.querying import query
from topology.faust.settings import Guarantee, Settings

__all__ = [
    "App",
    "CannotAnswer",
    "Guarantee",
    "Settings",
    "StreamSelection",
    "SuggestedTimeouts",
    "TopicMissing",
    "ViewCounts",
    "account_text",
    "audit",
    "cancel",
    "commands",
    "compile",
    "drop",
    "explain",
    "gaps",
    "gaps_text",
    "halt",
    "operate_many",
    "parked",
    "query",
    "redrive",
    "redrive_dead",
    "resume",
    "skip",
    "suggest_timeouts",
    "tally_text",
    "topics",
    "unpark",
    "views",
]
