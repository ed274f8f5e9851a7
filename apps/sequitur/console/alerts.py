"""What a process of `sequitur alerts` tells of itself, by its metrics."""

import asyncio
from dataclasses import dataclass
from functools import partial

import aiohttp
import orjson
from nicegui import ui
from prometheus_client.parser import text_string_to_metric_families

from sequitur.console.report import EVERY, card
from sequitur.console.site import Site, text_table
from topology.model.counted import counted
from topology.model.printable import printable

SECONDS, BYTES = 5.0, 1 << 20
"""That an answer may take, and have."""


@dataclass(frozen=True, slots=True)
class Alerted:
    """What there was since the process began.

    Attributes:
        troubles: what keeps it from its work; nothing while it watches.
        records: how many it read.
        patterns: pattern → its alerts.
        actions: what became of actions → how many.
    """

    troubles: list[str]
    records: int
    patterns: dict[str, int]
    actions: dict[str, int]


async def alerted(_: object, url: str) -> Alerted:
    """Ask the process. Raises ClientError, OSError, ValueError, TimeoutError."""
    limit = aiohttp.ClientTimeout(SECONDS)
    async with aiohttp.ClientSession(timeout=limit) as client:

        async def page(name: str) -> bytes:
            place = f"{url.rstrip('/')}/{name}"
            async with client.get(place, allow_redirects=False) as answer:
                return await answer.content.read(BYTES)

        text, ready = await asyncio.gather(page("metrics"), page("ready"))
    found: dict[str, dict[str, int]] = {}
    for family in text_string_to_metric_families(text.decode("utf-8", "replace")):
        for sample in family.samples:
            label = next(iter(sample.labels.values()), "")
            found.setdefault(sample.name, {})[label] = int(sample.value)
    if "sequitur_alerts_records_total" not in found:
        raise ValueError(f"{url} is no process of sequitur alerts with --metrics")
    return Alerted(
        orjson.loads(ready)["troubles"],
        found["sequitur_alerts_records_total"].get("", 0),
        found.get("sequitur_alerts_total", {}),
        found.get("sequitur_alerts_actions_total", {}),
    )


def show_alerts(site: Site, url: str) -> None:
    """A part of a page."""
    with card(f"Alerts of {url}"):
        site.live(f"alerts {url}", partial(alerted, url=url), lambda found, _: _show(found),
                  every=EVERY)  # fmt: skip


def _show(found: Alerted) -> None:
    troubles = "; ".join(printable(each, 200) for each in found.troubles)
    ui.label(troubles or "It watches.").classes("bad" if troubles else "good")
    actions = ", ".join(
        f"{number:,} {printable(name, 40)}" for name, number in found.actions.items()
    )
    ui.label(f"{counted(found.records, 'record')} read since it began; actions: {actions}")
    rows = [
        {"pattern": printable(name, 80), "alerts": f"{number:,}"}
        for name, number in sorted(found.patterns.items(), key=lambda one: -one[1])
    ]
    text_table("Alerts", {"pattern": "pattern", "alerts": "alerts"}, rows, numbers=("alerts",))
