"""Inspectors, one format per file."""

from topology.inspectors.alternatives import FirstOf, first_of
from topology.inspectors.cloudevents import CloudEvents
from topology.inspectors.debezium import Debezium
from topology.inspectors.debezium_transactions import DebeziumTransactions
from topology.inspectors.headers import Headers
from topology.inspectors.json import Inspector
from topology.inspectors.lazy import LazyJson

__all__ = [
    "CloudEvents",
    "Debezium",
    "DebeziumTransactions",
    "FirstOf",
    "Headers",
    "Inspector",
    "LazyJson",
    "first_of",
]
