"""The strip says of each sequence what became of it, as the engine has it; the histogram, ages."""

from hypothesis import given
from hypothesis import strategies as st

from sequitur.console.histogram import histogram
from sequitur.console.pages.failures import literal
from sequitur.console.strip import Segment, strip
from topology import Inspector, Topology, TopologyTestDriver, park
from topology.diagnostics.side_topics import alike


def strips(messages: list[tuple[int, str]]) -> list[Segment]:
    shop = Topology("shop")
    shop.source("orders", inspector=Inspector(stream="id", sequence="n", kind="kind"))

    @shop.view("board", of="orders", error=park())
    def board(event: object) -> None:
        if getattr(event, "kind", "") == "Bad":
            raise ValueError("no")

    driver = TopologyTestDriver(shop)
    for n, kind in messages:
        driver.pipe("orders", {"id": "a", "n": n, "kind": kind})
    return strip(driver.explain("board", "a"), start=1)


def test_what_is_handled_missing_and_waiting_is_told_apart() -> None:
    found = strips([(n, "Ok") for n in (1, 2, 5, 6, 9)])
    assert [str(each) for each in found] == [
        "1 to 2 handled", "3 to 4 missing", "5 to 6 waiting", "7 to 8 missing", "9 waiting",
    ]  # fmt: skip


def test_what_is_parked_is_not_said_to_wait() -> None:
    found = strips([(1, "Ok"), (2, "Bad"), (3, "Ok")])
    assert [str(each) for each in found] == ["1 handled", "2 to 3 parked"]


@given(st.sets(st.integers(1, 15), min_size=1))
def test_each_sequence_is_in_one_segment(sent: set[int]) -> None:
    found = strips([(n, "Ok") for n in sorted(sent, reverse=True)])
    states = {n: each.state for each in found for n in range(each.first, each.last + 1)}
    assert sum(each.last - each.first + 1 for each in found) == len(states) == max(sent)
    head = next(n for n in range(1, 17) if n not in sent)
    for n, state in states.items():
        assert state == ("missing" if n not in sent else "handled" if n < head else "waiting")


def test_ages_are_counted_up_to_clocks_that_went_back() -> None:
    now = 10**12
    seconds = [-5, 0, 9, 10, 59, 3600, 10**7, 10**7]
    bars = histogram(now, [now - 1000 * each for each in seconds])
    assert [bar.count for bar in bars] == [3, 2, 0, 0, 1, 2]
    assert [bar.width for bar in bars] == [100, 67, 0, 0, 34, 67]
    assert [bar.width for bar in histogram(now, [])] == [0] * 6


def test_a_group_is_chosen_by_what_its_reasons_have_in_common() -> None:
    reason = "ValueError: no gate 17 for 'A 4'"
    assert literal(alike(reason)) == "ValueError: no gate"
    assert literal(alike(reason)) in reason
    assert literal(alike("")) == ""
