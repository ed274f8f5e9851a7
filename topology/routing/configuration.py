"""Rules and tables out of the text of files: TOML, JSON and CSV. Nothing is opened here."""

import csv
import io
import tomllib
from collections.abc import Callable, Mapping
from typing import Any

import orjson

from topology.inspectors.fields import header, key
from topology.model.closest import closest
from topology.model.errors import DeclarationError
from topology.model.names import listed
from topology.model.printable import printable
from topology.routing.conditions import AnyCondition, all_of, any_of, none_of, when
from topology.routing.introspect import CsvKeys, FixKeys, FunctionKeys, JsonKeys, KeyModule, XmlKeys
from topology.routing.routing_keys import RoutingKey
from topology.routing.rule_set import RuleSet
from topology.routing.rules import RoutedSource, Rule
from topology.routing.tables import Keymap, Target
from topology.routing.transformations import Transformation, known

LARGEST = 64 << 20
"""Bytes that the text of a file may have."""
_MODULES: dict[str, Callable[..., KeyModule]] = {
    "json": JsonKeys, "xml": XmlKeys, "csv": CsvKeys, "fix": FixKeys,
}  # fmt: skip
_NESTED = {"all": all_of, "any": any_of, "none": none_of}


def read_toml(text: str) -> dict[str, Any]:
    """Read TOML.

    Args:
        text: of the file.

    Raises:
        DeclarationError: it is none, and where.
    """
    try:
        return tomllib.loads(_sized("TOML", text))
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise DeclarationError(f"it is not TOML: {printable(error, 300)}") from None


def read_json(text: str) -> Any:
    """Read JSON.

    Args:
        text: of the file.

    Raises:
        DeclarationError: it is none, and where.
    """
    try:
        return orjson.loads(_sized("JSON", text))
    except (orjson.JSONDecodeError, RecursionError) as error:
        raise DeclarationError(f"it is not JSON: {printable(error, 300)}") from None


def read_csv(text: str) -> list[tuple[str, ...]]:
    """Read a table's rows of CSV; the first line has the columns' names.

    Args:
        text: of the file.

    Raises:
        DeclarationError: it is none, and where.
    """
    rows = csv.reader(io.StringIO(_sized("CSV", text), newline=""), strict=True)
    try:
        found = [tuple(row) for row in rows if row]
    except csv.Error as error:
        raise DeclarationError(f"it is not CSV: line {rows.line_num}: {printable(error)}") from None
    if not found:  # a file that is being written, rather than a table without rows
        raise DeclarationError("it is empty; a table's first line has the columns' names")
    return found[1:]


def rules_from(
    data: Mapping[str, Any],
    number: int,
    tables: Mapping[str, Any] | None = None,
    *,
    site: str = "",
    unit: str = "",
) -> RuleSet:
    """Make a version of the rules out of a configuration.

    Args:
        data: what `read_toml` or `read_json` gave.
        number: the version's.
        tables: keymap → entries or rows, of the keymaps that have no `entries` in the data.
        site: where the router is.
        unit: the router.

    Raises:
        DeclarationError: something in it is wrong; the text names it.
    """
    kinds = ("source", "rule", "destination", "keymap", "outbound", "module", "transformation")
    only("rules", data, kinds)
    parts = {kind: parts_of(kind, data.get(kind, {})) for kind in kinds if kind != "outbound"}
    outbound = {
        name: {tag: _target(f"outbound table {name!r}, tag {tag!r}", to) for tag, to in t.items()}
        for name, t in parts_of("outbound", data.get("outbound", {})).items()
    }
    rules = []
    for name, given in parts["rule"].items():
        own = given.get("outbound")
        if isinstance(own, Mapping):  # a table of its own
            if name in outbound:
                raise DeclarationError(f"outbound table {name!r}: rule {name!r} has one, too")
            what = f"rule {name!r}, outbound tag "
            outbound[name] = {tag: _target(f"{what}{tag!r}", to) for tag, to in own.items()}
            given = {**given, "outbound": name}
        rules.append(_rule(name, given))
    destinations = {}
    for name, given in parts["destination"].items():
        only(f"destination {name!r}", given, ("format",))
        destinations[name] = given.get("format")
    modules = {
        name: module_of(f"module {name!r}", given) for name, given in parts["module"].items()
    }
    for places in (data.get("source", {}), data.get("rule", {})):
        for name in (each.get("module") for each in places.values()):
            if isinstance(name, str) and ":" in name and name not in modules:
                modules[name] = FunctionKeys(name)
    return RuleSet(
        number,
        sources=[_made(RoutedSource, "source", "topic", n, g) for n, g in parts["source"].items()],
        rules=rules,
        destinations=destinations,
        keymaps=keymaps_from(data, tables),
        outbound=outbound,
        modules=modules,
        transformations=[
            _made(Transformation, "transformation", "name", name, given)
            for name, given in parts["transformation"].items()
        ],
        site=site,
        unit=unit,
    )


def keymaps_from(data: Mapping[str, Any], tables: Mapping[str, Any] | None = None) -> list[Keymap]:
    """Make the keymaps of a configuration, whatever else it has.

    Args:
        data: what `read_toml` or `read_json` gave.
        tables: keymap → entries or rows, of those that have no `entries` in the data.

    Raises:
        DeclarationError: something in them is wrong; the text names it.
    """
    loaded = {**(tables or {})}
    keymaps = []
    for name, given in parts_of("keymap", data.get("keymap", {})).items():
        only(f"keymap {name!r}", given, ("entries", "otherwise"))
        if "entries" not in given:
            known(name, loaded, f"keymap {name!r} has no entries", "loaded table")
        entries = given.get("entries", loaded.get(name))
        keymaps.append(Keymap(name, entries, otherwise=given.get("otherwise", ())))
    return keymaps


def only(what: str, given: Mapping[str, Any], names: tuple[str, ...]) -> None:
    """Raises DeclarationError for a name that means nothing, with the closest one that does."""
    if not isinstance(given, Mapping):
        raise DeclarationError(f"{what}: write a table")
    for name in given:
        if name not in names:
            near = closest(str(name), names)
            raise DeclarationError(f"{what}: it has no {printable(name)!r}{near}")


def _sized(what: str, text: str) -> str:
    if len(text) > LARGEST:
        raise DeclarationError(f"{what} of {len(text)} characters: the limit is {LARGEST}")
    return text


def parts_of(kind: str, given: object) -> dict[str, Mapping[str, Any]]:
    """The tables of a kind by name. Raises DeclarationError where there is another value."""
    if not isinstance(given, Mapping):
        raise DeclarationError(f"{kind}: write tables, as in [{kind}.name]")
    for name, part in given.items():
        if not isinstance(part, Mapping):
            raise DeclarationError(f"{kind} {printable(name)!r}: write a table, not a value")
    return dict(given)


def _target(what: str, given: object) -> Target:
    if not isinstance(given, Mapping):
        return Target(listed(what, given, "give a destination, several, or { to = …, then = … }"))
    only(what, given, ("to", "then"))
    ends = (listed(what, given.get(end, ()), "give names") for end in ("to", "then"))
    return Target(*ends)


def _rule(name: str, given: Mapping[str, Any]) -> Rule:
    what = f"rule {name!r}"
    given = dict(given)
    if "key" in given:
        given["key"] = key_of(what, given["key"])
    conditions = given.get("when", ())
    several = [conditions] if isinstance(conditions, Mapping) else conditions
    if not isinstance(several, list | tuple):
        raise DeclarationError(f"{what}: when = {printable(repr(several))}; give conditions")
    given["when"] = tuple(_condition(what, each) for each in several)
    for each in ("to", "then", "otherwise"):
        given[each] = listed(f"{what}: {each}", given.get(each, ()), "give names")
    made: Rule = _made(Rule, "rule", "name", name, given)
    return made


def _condition(what: str, given: object, depth: int = 0) -> AnyCondition:
    if not isinstance(given, Mapping) or depth > 20:
        raise DeclarationError(
            f"{what}: {printable(repr(given))} is no condition; write {{ key = …, equals = … }}, "
            "or { all = [ … ] }, any, none; not deeper than 16"
        )
    if len(given) == 1 and (kind := next(iter(given))) in _NESTED:
        inside = given[kind]
        if not isinstance(inside, list):
            raise DeclarationError(f"{what}: {kind} = {printable(repr(inside))}; give a list")
        return _NESTED[kind](*(_condition(what, each, depth + 1) for each in inside))
    rest = {str(name): value for name, value in given.items() if name != "key"}
    of = key_of(what, given.get("key"))
    try:
        return when(of, **rest)
    except DeclarationError as error:
        raise DeclarationError(f"{what}: {error}") from None


def key_of(what: str, given: object) -> RoutingKey:
    """Make a routing key of its name, `{ header = … }` or `{ record = "key" }`.

    Args:
        what: as errors name it.
        given: as configurations have it.

    Raises:
        DeclarationError: it is none.
    """
    if isinstance(given, Mapping) and len(given) == 1:
        ((kind, name),) = given.items()
        if kind == "header":
            return header(name)
        if kind == "record" and name == "key":
            return key()
    if not isinstance(given, str):
        raise DeclarationError(
            f"{what}: key = {printable(repr(given))}; give a routing key's name, "
            '{ header = "name" } or { record = "key" }'
        )
    return given


def module_of(what: str, given: Mapping[str, Any]) -> KeyModule:
    """Make an introspection module.

    Args:
        what: as errors name it.
        given: `format` and the module's own arguments, or `function`.

    Raises:
        DeclarationError: something in it is wrong.
    """
    rest = dict(given)
    kind = rest.pop("format", None)
    if "function" in rest:
        kind, make = "function", FunctionKeys
    else:
        make = known(str(kind), _MODULES, what, "format")
    if isinstance(rest.get("separator"), str):
        rest["separator"] = rest["separator"].encode()
    try:
        return make(**rest)
    except TypeError as error:
        raise DeclarationError(f"{what} of {kind}: {printable(error)}") from None


def _made(make: Callable[..., Any], kind: str, called: str, name: str, given: Any) -> Any:
    """A declared value out of a table, whose names are those of its arguments."""
    what = f"{kind} {printable(name)!r}"
    names = tuple(each for each in make.__annotations__ if each != called)
    only(what, given, names)
    rest = {n: tuple(v) if isinstance(v, list) else v for n, v in given.items()}
    try:
        return make(**{called: name}, **rest)
    except TypeError as error:
        raise DeclarationError(f"{what}: {printable(error)}") from None
