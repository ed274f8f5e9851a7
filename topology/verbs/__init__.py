"""Verbs on events that are in order: filter, map, folds and windows, declared as values."""

from topology.verbs.aggregates import Aggregate, count, least, mean, most, total
from topology.verbs.as_of import AsOf, as_of_sequence, as_of_time
from topology.verbs.by_key import ByKey
from topology.verbs.combining import CombineOptions, KeyRow
from topology.verbs.declared_views import ViewOptions
from topology.verbs.emitted import emitted
from topology.verbs.events import Events, events
from topology.verbs.folds import EachStream, Row, Windowed
from topology.verbs.lookups import Latest, LookupRow
from topology.verbs.rows import Rows, RowsByKey
from topology.verbs.windows import Windows, hopping, session, tumbling

__all__ = [
    "Aggregate",
    "AsOf",
    "ByKey",
    "CombineOptions",
    "EachStream",
    "Events",
    "KeyRow",
    "Latest",
    "LookupRow",
    "Row",
    "Rows",
    "RowsByKey",
    "ViewOptions",
    "Windowed",
    "Windows",
    "as_of_sequence",
    "as_of_time",
    "count",
    "emitted",
    "events",
    "hopping",
    "least",
    "mean",
    "most",
    "session",
    "total",
    "tumbling",
]
