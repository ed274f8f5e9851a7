"""The file of a site: which one it is, which others there are, and which topics they share.

own = "newark"
topics = ["flights.movements"]

[site.newark]
broker = "127.0.0.1:9092"

[site.kennedy]
broker = "kennedy.example:9093"
properties = "kennedy.properties"   # client properties: TLS, SASL; beside this file
cluster = "SbYsn4ESR6aAB5Tn1cMTnw"  # the cluster id that it must have
log = "@kennedy.url"                # the database of its replay log: a URL, or a file with it
"""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sequitur.kafka.login import kafka_login
from sequitur.kafka.options import OptionError
from stores.db.urls import read_url
from stores.sites import Site
from topology.model.closest import closest
from topology.model.errors import DeclarationError
from topology.model.printable import printable

_SITE = ("broker", "properties", "cluster", "log")


@dataclass(frozen=True, slots=True)
class SitesFile:
    """own: name of this site. sites: all of them, by name. topics: which are forwarded."""

    own: str
    sites: Mapping[str, Site]
    topics: tuple[str, ...]

    @property
    def here(self) -> Site:
        return self.sites[self.own]

    def others(self, *but: str) -> list[Site]:
        """All sites but these."""
        return [site for name, site in self.sites.items() if name not in but]

    def named(self, name: str) -> Site:
        """A site by its name. Raises DeclarationError."""
        if name not in self.sites:
            shown = printable(repr(name))
            raise DeclarationError(f"there is no site {shown}{closest(name, self.sites)}")
        return self.sites[name]


def load_sites(path: Path) -> SitesFile:
    """Read the file. Raises DeclarationError, OSError, ValueError."""
    try:
        data = tomllib.loads(path.read_text())
        _only("the file", data, ("own", "topics", "site"))
        tables, topics = data.get("site"), data.get("topics")
        if not isinstance(tables, dict) or len(tables) < 2:
            raise DeclarationError("site: write a table [site.NAME] for each site, this one too")
        if not isinstance(topics, list) or not topics or not all(map(_is_text, topics)):
            raise DeclarationError("topics: give a list of the topics that are forwarded")
        sites = {name: _site(path.parent, name, table) for name, table in tables.items()}
        own = data.get("own")
        if not isinstance(own, str) or own not in sites:
            raise DeclarationError(f"own = {printable(repr(own))}; give one of {', '.join(sites)}")
        return SitesFile(own, sites, tuple(dict.fromkeys(topics)))
    except (DeclarationError, OptionError, tomllib.TOMLDecodeError) as error:
        raise DeclarationError(f"{path}: {error}") from None


def _site(beside: Path, name: str, table: Any) -> Site:
    what = f"site {printable(name)}"
    if not isinstance(table, dict):
        raise DeclarationError(f"{what}: write a table")
    _only(what, table, _SITE)
    if "broker" not in table or not all(map(_is_text, table.values())):
        raise DeclarationError(f'{what}: give broker = "HOST:PORT"; all values are texts')
    file = beside / table["properties"] if "properties" in table else None
    log = table.get("log")
    if log is not None:
        log = read_url(f"@{beside / log[1:]}" if log.startswith("@") else log)
    return Site(name, kafka_login(table["broker"], file), table.get("cluster"), log)


def _only(what: str, table: Mapping[str, Any], known: tuple[str, ...]) -> None:
    for key in table:
        if key not in known:
            raise DeclarationError(f"{what}: unknown {printable(repr(key))}{closest(key, known)}")


def _is_text(value: object) -> bool:
    return isinstance(value, str) and value != ""
