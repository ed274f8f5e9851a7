"""A history that may lack its beginning, where no view could tell, replaces nothing."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sequitur.rebuild.job import Job
from sequitur.rebuild.plan import Plan, Request, WorkFolder
from topology import Inspector, Topology, earliest_seen, linked, monotonic
from topology.faust.worker.snapshot import Snapshot
from topology.view_rebuild import CannotRebuild, Tally

FIRST = earliest_seen(after=1)


def job(folder: Path, topology: Topology, history: tuple[str, ...], **more: Any) -> Job:
    app: Any = SimpleNamespace(engine=SimpleNamespace(topology=topology))
    request = Request(("board",), "sqlite:///s.sqlite", history)
    return Job(app, request, request.store, WorkFolder(folder), {}, lambda: False, **more)


def check(
    folder: Path, first: int, history: tuple[str, ...], sequence: Any, start: Any, **more: Any
) -> None:
    topology = Topology("shop")
    orders = topology.source("in", inspector=Inspector("id", "n"), name="o", sequence=sequence)
    topology.view("board", of=orders, handler=lambda event: None, start=start)
    inputs = {"in": {0: (0, 9), 1: (0, 9)}, "shop.o.by-stream": {0: (0, 9), 1: (first, 99)}}
    found = job(folder, topology, history, **more)
    found.check_beginnings(Plan(found.request, Snapshot(0, {}, {}, {}, inputs)))


@pytest.mark.parametrize(
    ("sequence", "start"), [(monotonic(settle=1), None), (linked("previous"), None), (None, FIRST)]
)
def test_where_no_number_would_be_missing_it_is_refused(
    tmp_path: Path, sequence: Any, start: Any
) -> None:
    """Rows of the tail took the place of the live ones, and nothing was said."""
    with pytest.raises(CannotRebuild, match=r"shop\.o\.by-stream/1 begins behind its offset 0"):
        check(tmp_path, 7, ("by-stream",), sequence, start)
    check(tmp_path, 0, ("by-stream",), sequence, start)
    check(tmp_path, 7, ("by-stream", "sources"), sequence, start)
    check(tmp_path, 7, ("by-stream", "parquet:past"), sequence, start)
    check(tmp_path, 7, ("by-stream",), sequence, start, incomplete=True)


def test_numbers_that_count_tell_what_is_missing(tmp_path: Path) -> None:
    check(tmp_path, 7, ("by-stream",), None, None)


def test_where_dropped_streams_began_anew_is_asked_for(tmp_path: Path) -> None:
    """The history was said to lack 0 events, and a longer one to help."""
    tallies = {"board": Tally(streams=3, unplaced=2)}
    with pytest.raises(CannotRebuild, match=r"2 streams were dropped.*--history by-stream as well"):
        job(tmp_path, Topology("shop"), ("sources",)).judge(tallies)
    job(tmp_path, Topology("shop"), ("sources",), incomplete=True).judge(tallies)
