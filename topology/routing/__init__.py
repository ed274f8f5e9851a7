"""Routing: find a message's destinations by looking inside. Pure: tables come in as data."""

from topology.routing.conditions import Condition, Nested, all_of, any_of, none_of, when
from topology.routing.formats import Endpoint, FormatPlan, Formats, Made, Transformation
from topology.routing.introspect import CsvKeys, FixKeys, FunctionKeys, JsonKeys, KeyModule, XmlKeys
from topology.routing.rule_set import RuleSet
from topology.routing.rules import RoutedSource, Rule
from topology.routing.tables import Keymap, Target, outbound_table
from topology.routing.trail import RULES_HEADER, Detail, Routing, RuleStep, Trail

__all__ = [
    "RULES_HEADER",
    "Condition",
    "CsvKeys",
    "Detail",
    "Endpoint",
    "FixKeys",
    "FormatPlan",
    "Formats",
    "FunctionKeys",
    "JsonKeys",
    "KeyModule",
    "Keymap",
    "Made",
    "Nested",
    "RoutedSource",
    "Routing",
    "Rule",
    "RuleSet",
    "RuleStep",
    "Target",
    "Trail",
    "Transformation",
    "XmlKeys",
    "all_of",
    "any_of",
    "none_of",
    "outbound_table",
    "when",
]
