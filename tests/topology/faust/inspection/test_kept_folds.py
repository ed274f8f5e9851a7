"""A look that goes on where the last one ended finds what one from the beginning would."""

from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka import TopicPartition

from topology import Topology
from topology.diagnostics.explain import of_counts, of_stream
from topology.diagnostics.explain.fold import with_keys
from topology.engine.state.rows import COUNTS, progress_key
from topology.faust.inspection import durable, kept_folds
from topology.faust.inspection.kept_folds import BYTES, STREAMS, KeptFolds, folds_of

AT = TopicPartition("changelog", 0)


def kept_up_to(end: int) -> KeptFolds:
    kept = KeptFolds()
    fold, upto = kept.begin(AT, of_counts, 0, end)
    assert upto == 0
    fold.take(COUNTS, b"{}")
    kept.keep(AT, of_counts, fold, end)
    return kept


def test_a_look_goes_on_where_the_last_one_ended() -> None:
    fold, upto = kept_up_to(7).begin(AT, of_counts, 0, 9)
    assert (fold.rows, upto) == ({COUNTS: b"{}"}, 7)


def test_a_look_that_was_cut_off_leaves_nothing_behind() -> None:
    kept = kept_up_to(7)
    kept.begin(AT, of_counts, 0, 9)
    fold, upto = kept.begin(AT, of_counts, 0, 9)
    assert (fold.rows, upto) == ({}, 0)


@pytest.mark.parametrize(("first", "end"), [(0, 5), (8, 9)])
def test_a_changelog_that_was_made_anew_or_cut_is_read_from_its_beginning(
    first: int, end: int
) -> None:
    fold, upto = kept_up_to(7).begin(AT, of_counts, first, end)
    assert (fold.rows, upto) == ({}, first)


def test_the_streams_that_were_looked_at_last_are_kept_if_that_is_little() -> None:
    kept = KeptFolds()

    def look(stream: str, row: bytes) -> int:
        fold, upto = kept.begin(AT, of_stream(stream), 0, 9)
        fold.take(progress_key(stream), row)
        kept.keep(AT, of_stream(stream), fold, 9)
        return upto

    assert (look("a", b"1"), look("a", b"1")) == (0, 9)
    assert (look("large", b"1" * (BYTES + 1)), look("large", b"1")) == (0, 0)
    for n in range(STREAMS):
        look(f"s{n}", b"1")
    assert look("a", b"1") == 0


def test_a_stream_that_is_looked_at_again_asks_the_same_question() -> None:
    keys = [frozenset([b"x1"]), frozenset([b"x1", b"x2"])]
    first, second = (with_keys(of_stream("a"), each) for each in keys)
    assert with_keys(of_stream("a"), frozenset([b"x1"])) is first
    assert first is not second
    assert second(b"x2", b"")
    assert not first(b"x2", b"")
    assert first(progress_key("a"), b"1")


def test_what_compaction_may_have_forgotten_is_not_relied_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kept = kept_up_to(7)
    monkeypatch.setattr(kept_folds, "LASTS", -1.0)
    assert kept.begin(AT, of_counts, 0, 9)[1] == 0


async def test_who_is_given_rows_may_take_them_away_and_the_next_look_has_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    app: Any = SimpleNamespace(
        engine=SimpleNamespace(topology=Topology("shop"), changelogs={"board": "changelog"}),
        conf=SimpleNamespace(id="group"),
    )
    kept = KeptFolds()
    monkeypatch.setattr(durable, "folds_of", lambda _: kept)
    looker, reads = durable.DurableState(app), 0

    async def span(_: object) -> dict[TopicPartition, durable.Span]:
        return {TopicPartition("changelog", 0): durable.Span(0, 9)}

    async def read_on(_: object, fold: Any, upto: int, end: int, *__: object) -> Any:
        nonlocal reads
        reads += end - upto
        if upto < end:
            fold.take(COUNTS, b"{}")
        return fold

    monkeypatch.setattr(looker, "span", span)
    monkeypatch.setattr(looker, "_read_on", read_on)
    for _ in range(2):
        rows = await looker.rows("board", 0, of_counts)
        assert rows.pop(COUNTS) == b"{}"
    assert reads == 9


def test_looks_of_others_are_not_kept() -> None:
    class App:
        pass

    app = App()
    assert folds_of(app) is None
    kept_folds.keep_folds(app)
    assert folds_of(app) is not None
    assert folds_of(app) is folds_of(app)
