"""Verbs on events that are in order: filter, map, folds and windows, declared as values."""

from topology.verbs.aggregates import Aggregate, count, least, mean, most, total
from topology.verbs.by_key import ByKey
from topology.verbs.combining import CombineOptions, KeyRow
from topology.verbs.declared_views import ViewOptions
from topology.verbs.events import Events, events
from topology.verbs.folds import EachStream, Row, Windowed
from topology.verbs.rows import Rows, RowsByKey
from topology.verbs.windows import Windows, hopping, session, tumbling

__all__ = [
    "Aggregate",
    "ByKey",
    "CombineOptions",
    "EachStream",
    "Events",
    "KeyRow",
    "Row",
    "Rows",
    "RowsByKey",
    "ViewOptions",
    "Windowed",
    "Windows",
    "count",
    "events",
    "hopping",
    "least",
    "mean",
    "most",
    "session",
    "total",
    "tumbling",
]
