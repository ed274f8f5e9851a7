"""Lateness: how late events come, what a view learned of it, what each time-out would have cost."""

from collections import deque
from dataclasses import dataclass
from functools import partial
from typing import Any

from nicegui import ui

from sequitur.console.charts import bars, line_chart
from sequitur.console.report import card
from sequitur.console.site import Site, text_table
from topology.faust.inspection.learned_lateness import LearnedLateness, learned_lateness
from topology.model.counted import counted
from topology.model.printable import printable

EVERY, KEPT = 15.0, 480
"""Seconds from one look to the next, and looks that are kept: two hours."""
_HEADS = {
    "after": "skip(after=…)", "wrong": "late events given up wrongly", "share": "of late events",
    "skipped": "sequences given up", "waiting": "still waiting", "mean": "delay, mean (s)",
    "p99": "delay, 99 % (s)", "max": "delay, longest (s)",
}  # fmt: skip


@dataclass(slots=True)
class Looks:
    """What was learned, at each look: view → (seconds since 1970, seconds that gaps are held)."""

    held: dict[str, deque[tuple[float, float]]]

    def add(self, found: list[LearnedLateness]) -> None:
        """Note a look; partitions that differ are shown by the one that holds gaps longest."""
        for each in found:
            kept = self.held.setdefault(each.view, deque(maxlen=KEPT))
            if not kept or kept[-1][0] < each.now / 1000:
                kept.append((each.now / 1000, max(each.held)))

    def lines(self, view: str) -> dict[str, list[tuple[float, float]]]:
        """What a chart shows."""
        return {"held": list(self.held.get(view, ()))}


def register(site: Site) -> None:
    """Add the page."""
    looks = Looks({})

    async def asked(app: Any) -> list[LearnedLateness]:
        found = await learned_lateness(app)
        looks.add(found)
        return found

    @ui.page("/lateness")
    def page() -> None:
        with site.page("Lateness"):
            with card("What views learned"):
                site.live("lateness", asked, lambda found, _: _learned(found), every=EVERY)
                for name, view in site.topology.views.items():
                    if view.gap.adaptive is not None:
                        line_chart(f"Seconds that {name} holds gaps", partial(looks.lines, name))
            for name, source in site.topology.sources.items():
                if source.sequence.counts and site.topology.views_of(source):
                    with card(f"Time-outs tried on source {printable(name)}"):
                        _trial(site, name)


def _learned(found: list[LearnedLateness]) -> None:
    if not found:
        ui.label("No view has skip(after=adaptive()).")
    for each in found:
        low, high = min(each.held), max(each.held)
        held = f"{low:g} s" if low == high else f"{low:g} to {high:g} s"
        late = counted(round(each.events), "late event")
        ui.label(f"View {printable(each.view)} holds gaps for {held}, by {late}.")
        bars(f"Lateness of view {each.view}", each.bars)


def _trial(site: Site, source: str) -> None:
    ui.label("Each time is tried on the last recorded messages, by what orders them live.")
    more = ui.input("Times to try besides, such as 5s 1m").props("dense")

    def words() -> list[str]:
        times = [f"--after={each}" for each in (more.value or "").split()]
        return ["faust", "-A", site.place, "suggest-timeouts", f"--source={source}", *times,
                "--json"]  # fmt: skip

    site.jobs.show(f"timeouts {source}", words, partial(_tried, source))


def _tried(source: str, found: dict[str, Any]) -> None:
    seconds = found["lasted"] / 1000
    ui.label(f"{counted(found['looked'], 'event')} in {seconds:,.0f} s. {found['times']}")
    bars(f"Lateness in source {source}", found["late"])
    for view, suggestions in found["views"].items():
        with ui.element("h2"):
            ui.label(f"View {printable(view)}")
        rows = [_row(each) for each in suggestions]
        text_table(f"Time-outs of view {view}", _HEADS, rows, numbers=tuple(_HEADS))
        for note in found["notes"][view]:
            ui.label(f"Not as the view does: {printable(note, 300)}")
    ui.label(f"skip(after=adaptive()) would have learned {found['adaptive']:g} s at most.")


def _row(tried: dict[str, Any]) -> dict[str, Any]:
    return {
        "after": f"{tried['after']:g} s", "wrong": f"{tried['wrong']:,}",
        "share": f"{tried['wrong_skip']:.4%}", "skipped": f"{tried['skipped']:,}",
        "waiting": f"{tried['waiting']:,}", "mean": f"{tried['mean_delay']:.3f}",
        "p99": f"{tried['p99_delay']:.3f}", "max": f"{tried['max_delay']:.3f}",
    }  # fmt: skip
