"""Overview: the topology as a graph, the verdict, views with counts and lag, recent commands."""

from collections.abc import Iterable, Sequence

from nicegui import ui

from sequitur.console.samples import Situation, came
from sequitur.console.site import Site, text_table, view_link
from topology.diagnostics.explain import ViewTally, source_text
from topology.diagnostics.explain.formatting import pair
from topology.diagnostics.explain.times import at
from topology.diagnostics.explain.went_on_without import ranges_of
from topology.faust.inspection import ViewCounts, commands
from topology.faust.inspection.command_log import Commands
from topology.model.counted import counted
from topology.model.printable import printable

RECENT = 20
_GRAPH = {"theme": "neutral", "securityLevel": "strict"}
_HEADS = {
    "view": "view", "received": "received", "processed": "processed", "rate": "events/s",
    "waiting": "waiting", "parked": "parked", "failed": "failed", "late": "late", "dead": "dead",
    "lag": "lag (offsets)", "behind": "lag (s)",
    "state": "state",
}  # fmt: skip


def verdict(found: ViewCounts) -> tuple[bool, str]:
    """(whether all is well, the same in a line)."""
    wrong = [each.verdict for each in found.views if not each.adds_up]
    wrong += [each.wrong for each in found.sources if each.wrong]
    bad = [*wrong, *map(str, found.troubles())]
    if not bad:
        return True, "All is well: every event that came is in its place."
    more = f" – and {counted(len(bad) - 1, 'more trouble')}" if len(bad) > 1 else ""
    return False, printable(f"Not well: {bad[0]}{more}", 600)


def rate(found: Situation, view: str) -> str:
    """Events a second, as a text."""
    return f"{found.rates[view]:,.1f}" if view in found.rates else "–"


def edges(site: Site, found: Situation) -> dict[str, tuple[str, str]]:
    """What the graph says: of what comes into a view, and goes out; of what a source re-keys."""

    def into(name: str, lag: str) -> str:
        return f"{rate(found, came(name))}/s, {found.lags[lag]:,.0f} s behind"

    sources = {
        source.by_stream: (into(name, came(name)), "")
        for name, source in site.topology.sources.items()
    }
    views = {
        each.view: (into(each.view, each.view), f"{rate(found, each.view)}/s")
        for each in found.counts.views
    }
    return sources | views


def state_of(view: ViewTally) -> str:
    """Whether a view runs, in a word or two."""
    if view.halted:
        return "halted"
    if view.unassigned:
        return f"no worker has {counted(len(view.unassigned), 'partition')}"
    return "stands still" if view.still else "runs"


def register(site: Site) -> None:
    """Add the page."""

    @ui.page("/")
    def overview() -> None:
        with site.page("Overview"):
            with ui.element("section"):
                site.live("views", site.samples.look, lambda found, _: _views(site, found))
            with ui.element("section"):
                with ui.element("h2"):
                    ui.label("Graph")
                described = site.topology.describe()
                with ui.element("div").props('aria-hidden="true"').classes("graph q-pa-sm"):
                    graph = ui.mermaid(described.mermaid(), config=_GRAPH)

                def draw(found: Situation, _: object) -> None:
                    graph.set_content(described.mermaid(edges(site, found)))

                site.live("views", site.samples.look, draw)
                with ui.expansion("The same in words"):
                    ui.label(str(described)).classes("mono")
            with ui.element("section"):
                with ui.element("h2"):
                    ui.label("Recent commands")
                site.live("commands", lambda app: commands(app, limit=RECENT), _commands)


def _views(site: Site, found: Situation) -> None:
    good, line = verdict(found.counts)
    ui.label(line).classes("good" if good else "bad").props('role="status"')
    rows = [
        {
            "view": printable(each.view), "href": view_link(each.view), "state": state_of(each),
            "rate": rate(found, each.view), "lag": f"{each.lag:,}",
            "behind": f"{found.lags[each.view]:,.0f}",
            **{
                name: f"{getattr(each.counts, name):,}"
                for name in ("received", "processed", "waiting", "parked", "failed", "late", "dead")
            },
        }
        for each in found.counts.views
    ]  # fmt: skip
    with ui.element("h2"):
        ui.label("Views")
    numbers = tuple(name for name in _HEADS if name not in ("view", "state"))
    text_table("Views", _HEADS, rows, link="view", numbers=numbers)
    _list("Troubles", map(str, found.counts.troubles()))
    _list("Sources", map(source_text, found.counts.sources))
    with ui.element("h2"):
        ui.label("Workers")
    owners: dict[str, dict[str, list[int]]] = {}
    for place, name in sorted(found.group.owners.items()):
        owners.setdefault(name, {}).setdefault(place.topic, []).append(place.partition)
    if not owners:
        ui.label("No worker has any partition.")
        return
    heads = {"worker": "worker", "count": "partitions", "partitions": "which"}
    members = [
        {
            "worker": printable(name), "count": str(sum(map(len, has.values()))),
            "partitions": printable("; ".join(_numbers(*each) for each in has.items()), 2000),
        }
        for name, has in owners.items()
    ]  # fmt: skip
    text_table("Workers", heads, members, numbers=("count",))


def _numbers(topic: str, numbers: Sequence[int]) -> str:
    """`orders 0 to 3, 7`."""
    return f"{topic} {', '.join(pair(*each) for each in ranges_of(numbers))}"


def _commands(found: Commands, _: Commands | None) -> None:
    if not found.found:
        ui.label("Nobody has given a command.")
        return
    heads = {
        "age": "given", "who": "by", "view": "view", "line": "command", "state": "state",
        "why": "why", "answer": "answer",
    }  # fmt: skip
    rows = [
        {
            "age": at(each.given), "who": printable(each.who),
            "view": printable(each.view), "line": each.line, "state": each.state,
            "why": printable(each.why, 200), "answer": printable(each.message, 300),
        }
        for each in reversed(found.found)
    ]  # fmt: skip
    text_table("Commands", heads, rows)
    for each in found.unseen:
        ui.label(printable(each, 300))


def _list(head: str, lines: Iterable[str]) -> None:
    """A section of lines, if there are any."""
    lines = list(lines)
    if not lines:
        return
    with ui.element("h2"):
        ui.label(head)
    with ui.element("ul"):
        for each in lines:
            with ui.element("li"):
                ui.label(printable(each, 600))
