"""Introspection modules: they extract routing keys from a message, one format per file."""

from topology.routing.introspect.csv_keys import CsvKeys
from topology.routing.introspect.fix_keys import FixKeys
from topology.routing.introspect.function_keys import FunctionKeys
from topology.routing.introspect.json_keys import JsonKeys
from topology.routing.introspect.key_module import KeyModule
from topology.routing.introspect.xml_keys import XmlKeys

__all__ = ["CsvKeys", "FixKeys", "FunctionKeys", "JsonKeys", "KeyModule", "XmlKeys"]
