"""Sequences of any size: no count overflows, and a jump that cannot be is set aside."""

from dataclasses import replace
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.examples import some
from topology import (
    Counts,
    DeclarationError,
    Inspector,
    Topology,
    TopologyTestDriver,
    ask,
    contiguous,
    earliest_seen,
    halt,
    opened_by,
    redeliver,
    skip,
    spill,
    wait,
)
from topology.diagnostics.audit.sequences import Sequences
from topology.diagnostics.explain.gaps import Ledger, OpenGap
from topology.engine.commands.command import Command, decode_command
from topology.model.counts import MOST, decode_counts, encode_counts
from topology.spark.codec import Outcome

MOST_SEQUENCE = 2**63 - 1
EDGES = [
    0, 1, 2**31 - 1, 2**31, 2**32, 2**53 - 1, 2**53, 2**53 + 1, 10**12, 10**18, 2**63 - 2,
    2**63 - 1, 2**63, 2**64 - 1, 2**64, 2**70, -1, -(2**31), -(2**53), -(2**63), -(2**63) - 1,
]  # fmt: skip


def driver(sequence: Any = None, **policies: Any) -> TopologyTestDriver:
    topology = Topology("shop")
    source = topology.source("orders", inspector=Inspector("id", "n", "kind"), sequence=sequence)
    topology.view("v", of=source, handler=lambda event: None, **policies)
    return TopologyTestDriver(topology)


def pipe(of: TopologyTestDriver, *sequences: int, stream: str = "a", kind: str = "x") -> None:
    for sequence in sequences:
        of.pipe("orders", b'{"id":"%s","n":%d,"kind":"%s"}' % (
            stream.encode(), sequence, kind.encode(),
        ))  # fmt: skip


def test_the_highest_sequences_do_not_push_a_count_past_64_bits() -> None:
    of = driver(contiguous(jump=MOST), gap=skip(after=1), full=spill())
    for stream in "abc":
        pipe(of, MOST_SEQUENCE, stream=stream)
    of.advance(2)
    pipe(of, 1, 2, stream="d")
    of.restart()
    pipe(of, 3, stream="d")
    counts = of.counts("v")
    assert counts.skipped == MOST
    assert counts.processed == 6
    assert of.last("v", "d") == 3


def test_counts_stop_where_a_row_does() -> None:
    most = Counts(skipped=MOST)
    assert (most + Counts(skipped=1)).skipped == MOST
    assert decode_counts(encode_counts(most + most)) == most
    outcome = Outcome()
    for _ in range(3):
        outcome.count("v", {"skipped": MOST})
    assert orjson.loads(orjson.dumps(outcome.counts)) == {"v": {"skipped": MOST}}
    ledger = Ledger(0, 1)
    gap = OpenGap("v", 0, "a", 0, (), 1, MOST, 0, 1, False, None)
    for _ in range(3):
        ledger.enter([gap])
    assert ledger.sequences == MOST
    assert len(Sequences([(-(2**63), 2**63)])) == MOST


@pytest.mark.parametrize("policies", [{"gap": skip(after=1)}, {"gap": wait(), "full": spill()}])
def test_a_jump_that_cannot_be_is_set_aside_and_its_stream_goes_on(policies: Any) -> None:
    of = driver(**policies)
    pipe(of, 1, 2, MOST_SEQUENCE, 10**12 + 3, 3)
    of.advance(10)
    pipe(of, 4)
    assert of.last("v", "a") == 4
    counts = of.counts("v")
    assert (counts.processed, counts.dead, counts.skipped, counts.waiting) == (4, 2, 0, 0)
    dead = of.read("shop.dead")
    assert [dict(record.headers)["sequence"] for record in dead] == [
        b"%d" % MOST_SEQUENCE,
        b"%d" % (10**12 + 3),
    ]
    assert b"declare sequence=monotonic" in (dict(dead[0].headers)["sequitur-reason"] or b"")
    assert not of.audit().violations


def test_times_under_a_counting_order_are_set_aside_one_and_all() -> None:
    of = driver(gap=skip(after=1))
    for stream in range(20):
        pipe(of, 1_763_800_000_000_000_000 + stream, stream=f"s{stream}")
    of.advance(10)
    assert of.counts("v").dead == 20
    assert of.counts("v").skipped == 0


def test_the_bound_is_declared_where_a_jump_may_be_wider_or_is_less() -> None:
    near = driver(contiguous(start=0, step=10, jump=5), gap=skip(after=1))
    pipe(near, 0, 60, 50)
    near.advance(2)
    assert (near.last("v", "a"), near.counts("v").dead) == (50, 1)
    pipe(near, 100)
    near.advance(2)
    assert near.last("v", "a") == 100
    wide = driver(contiguous(jump=2 * 10**18), gap=skip(after=1))
    pipe(wide, 10**18)
    wide.advance(2)
    assert wide.last("v", "a") == 10**18
    for wrong in (0, -1, True, 1.5, "9"):
        with pytest.raises(DeclarationError, match="jump"):
            contiguous(jump=wrong)  # type: ignore[arg-type]


def test_a_stream_that_is_joined_midway_may_begin_anywhere_and_not_jump_from_there() -> None:
    of = driver(start=earliest_seen(after=1), gap=skip(after=1))
    base = 1_763_800_000_000_000
    pipe(of, base + 1, MOST_SEQUENCE, base, MOST_SEQUENCE - 1)
    of.advance(5)
    assert of.last("v", "a") == base + 1
    assert of.counts("v").dead == 2
    of.restart()
    pipe(of, base + 2)
    assert of.last("v", "a") == base + 2


@pytest.mark.parametrize("gap", [wait(), ask("shop")])
def test_nor_where_it_begins_with_its_first_event(gap: Any) -> None:
    """It waited for ever, and `ask` asked for all that was missing in front of it."""
    of = driver(start=earliest_seen(after=10), gap=gap, full=spill())
    pipe(of, 10**15, 3, 1)
    assert (of.last("v", "a"), of.waiting("v", "a"), of.counts("v").dead) == (1, [3], 1)
    pipe(of, 2)
    assert of.last("v", "a") == 3


def test_a_stream_that_an_event_opens_keeps_nothing_that_cannot_follow_it() -> None:
    of = driver(start=opened_by("open"), gap=wait(), full=spill())
    pipe(of, MOST_SEQUENCE, 6)
    pipe(of, 5, kind="open")
    assert of.last("v", "a") == 6
    assert of.waiting("v", "a") == []
    assert of.counts("v").dead == 1


def test_what_waited_before_there_was_a_bound_is_set_aside_when_its_gap_is_due() -> None:
    of = driver(contiguous(jump=MOST), gap=skip(after=60), full=spill(), buffer=2)
    pipe(of, 1, 10**15, 10**15 + 1, 10**15 + 9)
    of.restart()
    task = of._runner.tasks["orders"].views["v"]
    task.state.ordering = replace(task.state.ordering, jump=10**12)
    of.advance(61)
    assert of.last("v", "a") == 1
    assert (of.counts("v").dead, of.counts("v").waiting) == (3, 0)
    of.restart()
    assert of.waiting("v", "a") == []


def test_a_command_has_the_same_bounds() -> None:
    of = driver()
    pipe(of, 1)
    for force in (False, True):
        result = of.command("skip", "v", "a", 10**12 + 2, force=force)
        assert not result.done
        assert "jump" in result.message
    assert of.command("skip", "v", "a", 1000, force=True).done
    with pytest.raises(ValueError, match="64"):
        of.command("skip", "v", "a", 2**63)
    for wrong in (2**63, 2**64, -(2**63) - 1, 10**400):
        with pytest.raises(ValueError, match="no command"):
            decode_command(b'{"name":"skip","view":"v","stream":"a","sequence":%d}' % wrong)
    with pytest.raises(ValueError, match="64"):
        Command("skip", "v", "a", 10**400)


POLICIES: list[dict[str, Any]] = [
    {"gap": wait(), "full": spill()},
    {"gap": skip(after=1), "full": spill()},
    {"gap": skip(after=1), "full": redeliver(delay=0.25, limit=8)},
    {"gap": wait(), "full": halt()},
    {"start": earliest_seen(after=1), "gap": skip(after=1)},
    {"start": opened_by("x"), "gap": wait(), "full": spill()},
    {"closes": "y", "retention": 5.0, "gap": skip(after=1)},
]
SEQUENCES = st.one_of(
    st.sampled_from(EDGES),
    st.builds(lambda edge, by: edge + by, st.sampled_from(EDGES), st.integers(-3, 3)),
    st.integers(-5, 30),
)


@settings(max_examples=some(150), deadline=None)
@given(
    policy=st.sampled_from(POLICIES),
    order=st.sampled_from(
        [
            contiguous(),
            contiguous(start=-(2**63) + 1),
            contiguous(start=0, step=2**62),
            contiguous(jump=MOST),
            contiguous(start=-3, step=3, jump=2**62),
        ]
    ),
    steps=st.lists(
        st.one_of(
            st.tuples(st.just("pipe"), st.sampled_from("ab"), SEQUENCES, st.sampled_from("xy")),
            st.tuples(st.just("advance"), st.integers(1, 10)),
            st.tuples(st.just("restart")),
            st.tuples(st.just("skip"), SEQUENCES),
        ),
        max_size=14,
    ),
)
def test_sequences_of_any_size_stop_nothing_and_each_event_is_in_one_place(
    policy: dict[str, Any], order: Any, steps: list[Any]
) -> None:
    of = driver(order, buffer=2, **policy)
    for what, *arguments in steps:
        if what == "pipe":
            stream, sequence, kind = arguments
            pipe(of, sequence, stream=stream, kind=kind)
        elif what == "advance":
            of.advance(*arguments)
        elif what == "restart":
            of.restart()
        elif -(2**63) <= arguments[0] < 2**63:
            of.command("skip", "v", "a", arguments[0], force=True)
        counts = of.counts("v")
        assert counts.received == counts.accounted
        assert all(0 <= getattr(counts, name) <= MOST for name in counts.__slots__)
    of.restart()
    pipe(of, 1, stream="c")
    if not of.halted("v"):
        assert of.counts("v").received == of.counts("v").accounted
