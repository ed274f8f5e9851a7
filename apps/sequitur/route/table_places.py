"""The tables that a router's TOML file names: in files, in SQL, or made by functions."""

from collections.abc import Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from sqlalchemy import text

from stores.db.engines import open_engine
from stores.db.urls import read_url
from topology.model.dotted import load
from topology.model.errors import DeclarationError, described
from topology.model.printable import printable
from topology.routing import read_csv, read_json
from topology.routing.configuration import LARGEST
from topology.routing.tables import checked_text, in_order

_PLACES = ("file", "function", "query")
MOST_ROWS = 10_000_000
"""Rows that a table may have."""


def text_of(path: Path) -> str:
    """The text of a file, of which no more is read than a table or rules may have.

    Args:
        path: of the file.

    Raises:
        DeclarationError: it is no UTF-8.
        OSError: it cannot be read.
    """
    try:
        with path.open(encoding="utf-8-sig") as file:
            return file.read(LARGEST + 1)
    except UnicodeDecodeError as error:
        raise DeclarationError(f"it is no UTF-8: {error}") from None


def keymap_tables(data: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Keymap → what its place has; the places are taken out of the data.

    Args:
        data: of the TOML file.
        folder: where the paths in it begin.

    Raises:
        DeclarationError: what is wrong, and where.
        OSError: a file cannot be read.
    """
    keymaps = data.get("keymap", {})
    return {
        name: _entries(f"keymap {name!r}", given, folder)
        for name, given in (keymaps.items() if isinstance(keymaps, Mapping) else ())
        if isinstance(given, dict) and any(each in given for each in _PLACES)
    }


def filled_outbound(data: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """The data with what the places of outbound tables have in these, by tag.

    Args:
        data: of the TOML file.
        folder: where the paths in it begin.

    Raises:
        DeclarationError: what is wrong, and where.
        OSError: a file cannot be read.
    """
    data = {**data}
    if isinstance(tables := data.get("outbound"), Mapping):
        data["outbound"] = {
            name: _outbound(f"outbound table {name!r}", given, folder)
            for name, given in tables.items()
        }
    if isinstance(rules := data.get("rule"), Mapping):
        data["rule"] = {
            name: {**given, "outbound": _outbound(f"rule {name!r}", own, folder)}
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
    rows = [*entries.items()] if isinstance(entries, Mapping) else entries
    loaded: dict[str, Any] = {}
    for row in rows:
        if not isinstance(row, list | tuple) or len(row) != 2:
            raise DeclarationError(f"{what}, from: a row has a tag and a destination, and no more")
        tag, to = checked_text(f"{what}: tag", row[0]), row[1]
        if isinstance(entries, Mapping):
            if tag in loaded:
                raise DeclarationError(f"{what}: tag {printable(repr(tag))} is there twice")
            loaded[tag] = to
        else:
            loaded[tag] = [*loaded.get(tag, ()), to]
        if tag in found:
            raise DeclarationError(f"{what}: tag {printable(repr(tag))} is there, and in `from`")
    return found | loaded


def _entries(what: str, given: dict[str, Any], folder: Path) -> Any:
    """What a table's place has, a mapping or rows; the place is taken out of the data."""
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
            read = read_json if file.suffix == ".json" else read_csv
            found = read(text_of(file))
        except DeclarationError as error:
            raise DeclarationError(f"{what}: {place}: {error}") from None
    elif kind == "function":
        function = load(f"{what}: function", place, "a function")
        try:
            found = function()
            if not isinstance(found, Mapping):
                found = [*islice(in_order(found), MOST_ROWS + 1)]
        except BaseException as error:
            raise DeclarationError(
                f"{what}: {place} failed: {printable(described(error))}"
            ) from error
    else:
        found = _rows(what, place, read_url(str(database)))
    if not isinstance(found, Mapping | list):
        raise DeclarationError(f"{what}: {printable(repr(found))} is no table: give keys and tags")
    if len(found) > MOST_ROWS:
        raise DeclarationError(f"{what}: over {MOST_ROWS:,} rows; give fewer")
    return found


def _rows(what: str, query: str, url: str) -> list[tuple[Any, ...]]:
    """The rows of a query, sorted: a database may return them in another order each time."""
    engine = open_engine(url)
    try:
        with engine.connect() as connection:
            rows = connection.execute(text(query)).fetchmany(MOST_ROWS + 1)
    finally:
        engine.dispose()
    return sorted((tuple(_cell(what, value) for value in row) for row in rows), key=repr)


def _cell(what: str, value: Any) -> Any:
    """A value as tables take it: truth values and numbers as those of messages, not as SQL's."""
    if value is None or isinstance(value, bytes | memoryview):
        has = "NULL" if value is None else "bytes"
        raise DeclarationError(f"{what}: a row has {has}, which is no key and no tag; leave it out")
    return value if isinstance(value, bool | int | float | str) else str(value)
