"""Routing: find a message's destinations by looking inside. Pure: tables come in as data."""

from topology.routing.agreement import (
    Agreement,
    ControlRecord,
    Failed,
    Joined,
    Left,
    Loaded,
    Proposal,
    Propose,
    Register,
    Release,
    Trace,
    Unregister,
)
from topology.routing.broadcasts import (
    ACTION,
    BROADCAST,
    RULES_HEADER,
    Listening,
    Scope,
    broadcast_of,
)
from topology.routing.comparison import Comparison, compare
from topology.routing.conditions import Condition, Nested, all_of, any_of, none_of, when
from topology.routing.configuration import read_csv, read_json, read_toml, rules_from
from topology.routing.control_records import decode_control, encode_control
from topology.routing.formats import Endpoint, FormatPlan, Formats, Made
from topology.routing.introspect import CsvKeys, FixKeys, FunctionKeys, JsonKeys, KeyModule, XmlKeys
from topology.routing.member import Load, Member
from topology.routing.rule_set import RuleSet
from topology.routing.rules import RoutedSource, Rule
from topology.routing.tables import Keymap, Target, outbound_table
from topology.routing.trail import Detail, Routing, RuleStep, Trail
from topology.routing.transformations import Transformation

__all__ = [
    "ACTION",
    "BROADCAST",
    "RULES_HEADER",
    "Agreement",
    "Comparison",
    "Condition",
    "ControlRecord",
    "CsvKeys",
    "Detail",
    "Endpoint",
    "Failed",
    "FixKeys",
    "FormatPlan",
    "Formats",
    "FunctionKeys",
    "Joined",
    "JsonKeys",
    "KeyModule",
    "Keymap",
    "Left",
    "Listening",
    "Load",
    "Loaded",
    "Made",
    "Member",
    "Nested",
    "Proposal",
    "Propose",
    "Register",
    "Release",
    "RoutedSource",
    "Routing",
    "Rule",
    "RuleSet",
    "RuleStep",
    "Scope",
    "Target",
    "Trace",
    "Trail",
    "Transformation",
    "Unregister",
    "XmlKeys",
    "all_of",
    "any_of",
    "broadcast_of",
    "compare",
    "decode_control",
    "encode_control",
    "none_of",
    "outbound_table",
    "read_csv",
    "read_json",
    "read_toml",
    "rules_from",
    "when",
]
