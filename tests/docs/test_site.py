"""The documentation site: it builds without a warning, and loads nothing from another host."""

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from importlib import import_module
from pathlib import Path

import pytest

from checkout import docs

pytestmark = pytest.mark.integration

API = {
    "faust": "topology.faust",
    "inbox": "stores.inbox",
    "outbox": "stores.outbox",
    "sinks": "stores.sinks",
    "sinks_toolbox": "stores.sinks.toolbox",
    "routing": "topology.routing",
    "spark": "topology.spark",
    "testing": "topology.testing",
    "topology": "topology",
    "recovering": "stores.replay.recovering",
    "sites": "stores.sites",
    "two_phase": "stores.two_phase",
    "view_state": "stores.view_state",
}
"""The API pages and the public faces that they document."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    assert docs.main(["--site", str(folder)]) == 0
    return folder


class Page(HTMLParser):
    """A page's ids, its links, and what a browser loads to show it."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: set[str] = set()
        self.loads: set[str] = set()
        self.classes: set[str] = set()
        self.feed(path.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name == "id":
                self.ids.add(value or "")
            elif name == "class":
                self.classes |= {*(value or "").split()}
            elif name == "href" and tag == "a":
                self.links.add(value or "")
            elif name in ("action", "data", "href", "poster", "src", "srcset"):
                self.loads.add(value or "")


def hosts(text: str) -> Iterator[str]:
    """The hosts that a style sheet or a script may load from."""
    yield from re.findall(
        r"""(?:url\(|@import|src=|fetch\(|import\()\s*["']?((?:https?:)?//[^"')]+)""", text
    )
    yield from re.findall(
        r"https?://[\w.-]*(?:unpkg|jsdelivr|cdnjs|googleapis|gstatic)[\w./-]*", text
    )


def test_no_page_loads_anything_from_another_host(site: Path) -> None:
    pages = list(site.rglob("*.html"))
    assert len(pages) > 30
    for path in pages:
        page = Page(path)
        elsewhere = {each for each in page.loads | page.links if re.match(r"(\w+:)?//", each)}
        assert not elsewhere, path.name


def test_no_script_or_style_sheet_loads_anything_from_another_host(site: Path) -> None:
    files = [path for path in site.rglob("*") if path.suffix in (".js", ".css")]
    assert len(files) > 5
    for path in files:
        assert not set(hosts(path.read_text())), path.name


def test_diagrams_are_drawn_by_a_script_of_the_site(site: Path) -> None:
    assert "mermaid" in Page(site / "architecture.html").classes
    scripts = site / "assets" / "javascripts"
    assert (scripts / "mermaid.min.js").stat().st_size > 1_000_000
    theme = next(scripts.glob("bundle*.js")).read_text()
    assert 'new URL("assets/javascripts/mermaid.min.js",__md_scope)' in theme
    assert "__md_scope=new URL(" in (site / "architecture.html").read_text()


def test_every_page_is_in_the_navigation(site: Path) -> None:
    links = {link.partition("#")[0] for link in Page(site / "index.html").links}
    pages = {path.relative_to(site).as_posix() for path in site.rglob("*.html")}
    assert pages - links <= {"404.html"}


@pytest.mark.parametrize(("page", "face"), API.items())
def test_the_api_reference_has_every_public_name(page: str, face: str, site: Path) -> None:
    documented = Page(site / "api" / f"{page}.html").ids
    missing = {f"{face}.{name}" for name in import_module(face).__all__} - documented
    assert not missing
