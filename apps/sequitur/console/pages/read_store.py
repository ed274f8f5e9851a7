"""Read store: how far it is behind the output topics, what it refused, a sample of each table."""

import asyncio
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any

from aiokafka import TopicPartition
from nicegui import ui

from sequitur.console.actions import Action
from sequitur.console.by_command import by_command
from sequitur.console.report import EVERY, Given, card, form
from sequitur.console.site import Site, text_table
from sequitur.console.words import Words
from sequitur.materialize.open_sink import dead_by_topic, opened
from stores.db.urls import read_url
from stores.sinks import Removal, StoredDead, StoreError
from topology.diagnostics.explain.remedies import quoted
from topology.diagnostics.explain.times import at
from topology.faust.kafka.clients import connected_consumer
from topology.model.counted import counted
from topology.model.ending import wait_for_stop
from topology.model.printable import printable

SAMPLE = 5
"""Rows of a table that are shown, and dead records, the last ones."""


@dataclass(frozen=True, slots=True)
class Stored:
    """What a read store has.

    Attributes:
        behind: topic → (records that are not in it, dead records).
        dead: the last dead records.
        removals: who had some removed, the last first.
        tables: name → its first rows; why there are none, for a table that is not there.
    """

    behind: dict[str, tuple[int, int]]
    dead: list[StoredDead]
    removals: list[Removal]
    tables: dict[str, list[dict[str, Any]] | str]


async def stored(app: Any, url: str) -> Stored:
    """Read what the page shows. Raises StoreError, UrlError, KafkaError."""
    views = app.engine.topology.views.values()
    consumer = await connected_consumer(app)
    try:
        places = [
            TopicPartition(view.output, number)
            for view in views
            for number in range(view.of.partitions)
        ]
        ends: dict[TopicPartition, int] = await consumer.end_offsets(places)
    finally:
        await wait_for_stop(consumer.stop())
    tables = [table.name for view in views for table in view.tables]
    return await asyncio.to_thread(_read, url, ends, tables)


def _read(url: str, ends: dict[TopicPartition, int], tables: Sequence[str]) -> Stored:
    with opened(read_url(url)) as sink:
        progress = {TopicPartition(each.topic, each.partition): each for each in sink.progress()}
        dead, behind = dead_by_topic(sink), dict[str, tuple[int, int]]()
        for place, end in ends.items():
            at, (lag, _) = progress.get(place), behind.get(place.topic, (0, 0))
            lag += max(0, end - (at.next_offset if at else 0))
            behind[place.topic] = lag, dead[place.topic]
        found: dict[str, list[dict[str, Any]] | str] = {}
        for name in tables:
            try:
                with closing(sink.rows(name)) as rows:  # type: ignore[type-var]
                    found[name] = list(islice(rows, SAMPLE))
            except StoreError as error:
                found[name] = str(error)
        return Stored(behind, sink.last_dead(SAMPLE), sink.removals(SAMPLE), found)


def register(site: Site) -> None:
    """Add the page."""

    @ui.page("/read-store")
    def page() -> None:
        with site.page("Read store"):
            for words in site.parts["read-store"]:
                (url,) = words
                with card(f"Read store {url}"):
                    site.live(
                        quoted(["read store", *words]), partial(stored, url=url),
                        lambda found, _: _show(found), every=EVERY,
                    )  # fmt: skip
                form(site, "Dead records", {"older": "Older than, such as 30d"},
                     {"Remove": partial(remove, words)}, optional=["older"])  # fmt: skip


def remove(words: Words, given: Given) -> Action:
    """Delete dead records."""
    age = [f"--older-than={given['older']}"] if given["older"] else []
    return by_command(
        "dead-records", ["remove", f"--read-store={words[0]}", *age], "Remove",
        "Delete dead records of the read store",
        "What they say is lost; that they were dead stays counted.", dry_run=True,
    )  # fmt: skip


def _show(found: Stored) -> None:
    lag, dead = (sum(column) for column in zip(*found.behind.values(), strict=True))
    good = not dead
    says = (
        f"{counted(lag, 'record is', 'records are')} not in it yet; {counted(dead, 'dead record')}"
    )
    ui.label(says).classes("good" if good else "bad")
    heads = {"topic": "output topic", "lag": "lag (offsets)", "dead": "dead records"}
    rows = [
        {"topic": printable(topic), "lag": f"{lag:,}", "dead": f"{dead:,}"}
        for topic, (lag, dead) in found.behind.items()
    ]
    text_table("Output topics", heads, rows, numbers=("lag", "dead"))
    for each in found.dead:
        where = f"{each.topic}/{each.partition} offset {each.offset}"
        ui.label(f"{printable(where)}: {printable(each.reason, 300)}").classes("bad")
    for one in found.removals:
        by, why = printable(one.by, 200), printable(one.why or "no reason given", 300)
        ui.label(f"{at(one.at * 1000)}: {by} removed {one.number:,} of them: {why}")
    for name, sample in found.tables.items():
        with ui.element("h2"):
            ui.label(f"Table {printable(name)}")
        if isinstance(sample, str) or not sample:
            ui.label(printable(sample, 300) if sample else "It has no rows.")
            continue
        columns = dict.fromkeys(column for row in sample for column in row)
        rows = [{f"c{n}": _cell(row, c) for n, c in enumerate(columns)} for row in sample]
        heads = {f"c{n}": printable(column, 60) for n, column in enumerate(columns)}
        text_table(f"Table {name}", heads, rows)


def _cell(row: dict[str, Any], column: str) -> str:
    value = row.get(column)
    return "" if value is None else printable(value, 80)
