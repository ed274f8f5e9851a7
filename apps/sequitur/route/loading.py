"""A router's TOML file, and the tables that it names."""

from functools import partial
from pathlib import Path
from typing import Any

from sequitur.route.table_places import filled_outbound, keymap_tables, text_of
from sequitur.route.units import RouterUnits, without_places
from topology.model.errors import DeclarationError
from topology.model.names import checked_name
from topology.model.printable import printable
from topology.routing import Load, RuleSet, read_toml, rules_from
from topology.routing.configuration import keymaps_from, only, parts_of
from topology.routing.transformations import known

ROUTER = (
    *("name", "site", "broker", "partitions", "trails", "trail_function", "attempts", "parks"),
)
"""What the table `[router]` may have."""


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
    data, about = without_places(read), read.get("router", {})
    site, unit = (str(about.get(each, "")) for each in ("site", "name"))
    try:
        tables = keymap_tables(data, path.parent)
        return rules_from(filled_outbound(data, path.parent), number, tables, site=site, unit=unit)
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
        return before.with_keymaps(
            load.version, keymaps_from(data, keymap_tables(data, path.parent))
        )
    except DeclarationError as error:
        raise DeclarationError(f"{path}: {error}") from None


def read_router(path: Path) -> dict[str, Any]:
    """The data of a router's file, of which little is checked but that it is TOML.

    Args:
        path: of the file.

    Raises:
        DeclarationError: it is no TOML, or no tables say where messages come from and go to.
        OSError: it cannot be read.
    """
    try:
        data = read_toml(text_of(path))
        only("router", data.get("router", {}), ROUTER)
        for kind in ("source", "destination", "transport"):
            for name, part in parts_of(kind, data.get(kind, {})).items():
                if not isinstance(given := part.get("transport", ""), str):
                    what = f"{kind} {printable(name)!r}: transport = {printable(repr(given))}"
                    raise DeclarationError(f"{what}; give a text")
        return data
    except DeclarationError as error:
        raise DeclarationError(f"{path}: {error}") from None


def load_units(path: Path, *, there: bool = False) -> RouterUnits:
    """Read a router's file: its rules, its transports, and where it saves units of work.

    Args:
        path: of the TOML file; see `sequitur.route.units`.
        there: whether the ledger is only looked at, so that a file of SQLite has to be there.

    Raises:
        DeclarationError: what is wrong, and where.
        UrlError: the ledger is not there.
        OSError: a file cannot be read.
    """
    rules, data = load_rules(path), read_router(path)
    reload = partial(reload_rules, path)
    try:
        about = data.get("router", {})
        name, site = checked_name("router: name", about.get("name")), about.get("site")
        if not (isinstance(site, str) and site):
            raise DeclarationError("router: give it its site, which is part of ids")
        return RouterUnits(name, site, rules, data, path.parent, reload, there=there)
    except DeclarationError as error:
        raise DeclarationError(f"{path}: {error}") from None
