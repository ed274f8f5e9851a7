"""A router's TOML file, and the tables that it names."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from sqlalchemy import text

from sequitur.route.units import RouterUnits, without_places
from stores.db.engines import open_engine
from stores.db.urls import read_url
from topology.model.dotted import load
from topology.model.errors import DeclarationError
from topology.model.printable import printable
from topology.routing import Load, RuleSet, read_csv, read_json, read_toml, rules_from
from topology.routing.configuration import keymaps_from, only
from topology.routing.transformations import known

_PLACES = ("file", "function", "query")
ROUTER = (
    *("name", "site", "broker", "partitions", "trails", "trail_function", "attempts", "parks"),
)
"""What the table `[router]` may have."""
MOST_ROWS = 10_000_000
"""Rows that a table may have."""


def load_rules(path: Path, number: int = 1) -> RuleSet:
    """Read rules and their tables.

    Args:
        path: of the TOML file. A keymap in it has `entries`, or a `file` (CSV or JSON) beside it,
            or a `function` (`module:name`) that returns the entries, or a `query` that selects key
            and tag, with the `database` (`@FILE`, or its URL) to ask. An outbound table has such a
            place in `from`: of tags and destinations.
        number: the version's.

    Raises:
        DeclarationError: what is wrong, and where.
        OSError: a file cannot be read.
    """
    read = read_router(path)
    data, about = without_places(read), read.get("router")
    given = about if isinstance(about, Mapping) else {}
    site, unit = (str(given.get(each, "")) for each in ("site", "name"))
    try:
        tables = _tables(data, path)
        return rules_from(_with_outbound(data, path), number, tables, site=site, unit=unit)
    except DeclarationError as error:
        raise DeclarationError(f"{path}: {error}") from None


def reload_rules(path: Path, load: Load, before: RuleSet | None) -> RuleSet:
    """Load a version: the keymaps that are stale, or all of the file.

    Args:
        path: of the TOML file.
        load: what is to be loaded.
        before: the rules that the rest is taken from; None to read the whole file.

    Raises:
        DeclarationError: what is wrong, and where.
        OSError: a file cannot be read.
    """
    if before is None:
        return load_rules(path, load.version)
    given = read_router(path).get("keymap", {})
    try:
        stale = {name: known(name, given, "reload", "keymap") for name in sorted(load.stale)}
        data: dict[str, Any] = {"keymap": stale}
        return before.with_keymaps(load.version, keymaps_from(data, _tables(data, path)))
    except DeclarationError as error:
        raise DeclarationError(f"{path}: {error}") from None


def read_router(path: Path) -> dict[str, Any]:
    """The data of a router's file, of which nothing is checked but that it is TOML.

    Args:
        path: of the file.

    Raises:
        DeclarationError: it is no TOML.
        OSError: it cannot be read.
    """
    try:
        return read_toml(path.read_text())
    except UnicodeDecodeError as error:
        raise DeclarationError(f"{path}: it is no UTF-8: {error}") from None
    except DeclarationError as error:
        raise DeclarationError(f"{path}: {error}") from None


def _tables(data: dict[str, Any], path: Path) -> dict[str, Any]:
    """Keymap → what its place has; the places are taken out of the data."""
    keymaps = data.get("keymap", {})
    return {
        name: _entries(f"keymap {name!r}", given, path.parent)
        for name, given in (keymaps.items() if isinstance(keymaps, Mapping) else ())
        if isinstance(given, dict) and any(each in given for each in _PLACES)
    }


def _with_outbound(data: dict[str, Any], path: Path) -> dict[str, Any]:
    """The data with what the places of outbound tables have in these, by tag."""
    data = {**data}
    if isinstance(tables := data.get("outbound"), Mapping):
        data["outbound"] = {
            name: _outbound(f"outbound table {name!r}", given, path.parent)
            for name, given in tables.items()
        }
    if isinstance(rules := data.get("rule"), Mapping):
        data["rule"] = {
            name: {**given, "outbound": _outbound(f"rule {name!r}", own, path.parent)}
            if isinstance(given, Mapping) and isinstance(own := given.get("outbound"), Mapping)
            else given
            for name, given in rules.items()
        }
    return data


def _outbound(what: str, given: Any, folder: Path) -> Any:
    """An outbound table, with what its place has."""
    place = given.get("from") if isinstance(given, Mapping) else None
    if not (isinstance(place, Mapping) and any(each in place for each in _PLACES)):
        return given
    found = {tag: to for tag, to in given.items() if tag != "from"}
    entries = _entries(f"{what}, from", dict(place), folder)
    if isinstance(entries, Mapping):
        rows = [(tag, to) for tag, to in entries.items()]
    elif all(isinstance(row, list | tuple) and len(row) == 2 for row in entries):
        rows = [(tag, [to]) for tag, to in entries]
    else:
        raise DeclarationError(f"{what}, from: a row has a tag and a destination, and no more")
    loaded: dict[str, Any] = {}
    for tag, to in rows:
        if tag in found:
            raise DeclarationError(f"{what}: tag {printable(repr(tag))} is there, and in `from`")
        loaded[tag] = [*loaded[tag], *to] if tag in loaded else to
    return found | loaded


def load_units(path: Path) -> RouterUnits:
    """Read a router's file: its rules, its transports, and where it saves units of work.

    Args:
        path: of the TOML file; see `sequitur.route.units`.

    Raises:
        DeclarationError: what is wrong, and where.
        OSError: a file cannot be read.
    """
    rules, data = load_rules(path), read_router(path)
    try:
        about = data.get("router", {})
        only("router", about, ROUTER)
        name, site = about.get("name"), about.get("site")
        if not (isinstance(name, str) and isinstance(site, str) and name and site):
            raise DeclarationError("router: give it a name, and its site; both are part of ids")
        return RouterUnits(name, site, rules, data, path.parent, partial(reload_rules, path))
    except DeclarationError as error:
        raise DeclarationError(f"{path}: {error}") from None


def _entries(what: str, given: dict[str, Any], folder: Path) -> Any:
    """What a table's place has; the place is taken out of the data."""
    places = {each: given.pop(each) for each in _PLACES if each in given}
    database = given.pop("database", None)
    if len(places) > 1 or "entries" in given:
        raise DeclarationError(f"{what}: give one of entries, {', '.join(_PLACES)}")
    ((kind, place),) = places.items()
    if not isinstance(place, str):
        raise DeclarationError(f"{what}: {kind} = {printable(repr(place))}; give a text")
    if (kind == "query") != (database is not None):
        raise DeclarationError(f"{what}: query and database belong together")
    if kind == "file":
        file = folder / place
        try:
            found = file.read_text()
        except UnicodeDecodeError:
            raise DeclarationError(f"{what}: {place} is no UTF-8") from None
        return read_json(found) if file.suffix == ".json" else read_csv(found)
    if kind == "function":
        return load(f"{what}: function", place, "a function")()
    engine = open_engine(read_url(str(database)))
    try:
        with engine.connect() as connection:
            rows = connection.execute(text(place)).fetchmany(MOST_ROWS + 1)
    finally:
        engine.dispose()
    if len(rows) > MOST_ROWS:
        raise DeclarationError(f"{what}: over {MOST_ROWS:,} rows; select fewer")
    if any(value is None for row in rows for value in row):
        raise DeclarationError(f"{what}: a row has NULL, which is no key and no tag; leave it out")
    return [tuple(map(str, row)) for row in rows]
