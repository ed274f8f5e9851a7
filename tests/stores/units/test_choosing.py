"""Which unit goes first: sort keys within a look-ahead, and filters."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stores.units.errors import UnitError
from stores.units.queue import Filter
from stores.units.queue.ready_heads import MOST_FILTERS
from tests.examples import some
from tests.stores.units.desk import Desk


def drain(desk: Desk, session: str) -> list[int]:
    order = []
    while deliveries := desk.next(session):
        order += [each.message.offset for each in deliveries]
        desk.complete(session, *deliveries)
    return order


def test_sort_keys_decide_between_units_and_ungrouped_messages_never_inside_a_unit() -> None:
    desk = Desk()
    desk.send("a", sort=5.0)
    desk.send("b", sort=3.0)
    desk.send("b", sort=-9.0)
    desk.send(None, sort=1.0)
    desk.open("one")
    assert drain(desk, "one") == [3, 1, 2, 0]


@settings(deadline=None, max_examples=some(80))
@given(
    sent=st.lists(
        st.tuples(st.sampled_from([None, None, "a", "b"]), st.integers(0, 3)), max_size=40
    ),
    look_ahead=st.integers(0, 6),
)
def test_a_message_is_overtaken_only_by_offsets_within_the_look_ahead(
    sent: list[tuple[str | None, int]], look_ahead: int
) -> None:
    desk = Desk(look_ahead=look_ahead)
    for unit, sort in sent:
        desk.send(unit, sort=float(sort))
    desk.open("one")
    order = drain(desk, "one")
    assert sorted(order) == list(range(len(sent)))
    waiting = set(order)
    for offset in order:
        heads: dict[str | int, int] = {}
        for each in sorted(waiting):
            heads.setdefault(sent[each][0] or each, each)
        oldest = min(heads.values())
        near = [each for each in heads.values() if each - oldest <= look_ahead]
        assert (sent[offset][1], offset) == min((sent[each][1], each) for each in near)
        waiting.remove(offset)


def test_a_filter_admits_by_attributes() -> None:
    desk = Desk()
    desk.send("a", attributes={"colour": "red"})
    desk.send("b", attributes={"colour": "blue"})
    desk.send(None, attributes={"colour": "green"})
    desk.open("one", filter=Filter.of(colour=["blue", "green"]), prefetch=9)
    assert desk.offsets("one") == [1, 2]


def test_a_filter_never_takes_a_message_from_behind_its_units_head() -> None:
    desk = Desk()
    desk.send("a", attributes={"colour": "red"})
    desk.send("a", attributes={"colour": "blue"})
    desk.open("blue", filter=Filter.of(colour="blue"))
    desk.open("red", filter=Filter.of(colour="red"), prefetch=2)
    assert desk.offsets("blue") == []
    (red,) = desk.next("red")  # what follows does not pass its filter
    desk.complete("red", red)
    assert desk.offsets("blue") == [1]


def test_a_head_that_no_filter_admits_is_counted_and_told_of() -> None:
    desk = Desk()
    desk.send("a", attributes={"colour": "red"})
    desk.send("a")
    assert desk.queue.unadmitted == 0  # nobody is there at all
    desk.open("blue", filter=Filter.of(colour="blue"))
    assert desk.queue.unadmitted == 1
    status = desk.queue.status("a")
    assert status.state == "unadmitted"
    assert "filter admits" in status.helps
    desk.send(None, attributes={"colour": "green"})
    assert desk.queue.unadmitted == 2
    desk.open("all")
    assert desk.queue.unadmitted == 0
    desk.queue.close_session("all", desk.now)
    assert desk.queue.unadmitted == 2


def test_a_slow_filter_does_not_keep_others_from_what_lies_beyond_the_look_ahead() -> None:
    desk = Desk(look_ahead=2)
    desk.send("red", attributes={"colour": "red"})
    desk.send(*[None] * 20, attributes={"colour": "blue"})
    desk.open("blue", filter=Filter.of(colour="blue"), prefetch=20)
    assert desk.offsets("blue") == list(range(1, 21))


def test_the_number_of_filters_is_limited() -> None:
    desk = Desk()
    for each in range(MOST_FILTERS):
        desk.open(f"s{each}", filter=Filter.of(n=str(each)))
    with pytest.raises(UnitError, match="different filters"):
        desk.open("more", filter=Filter.of(n="more"))
    desk.open("again", filter=Filter.of(n="0"))


def test_what_returns_many_times_takes_no_more_memory() -> None:
    desk = Desk(redelivery_limit=None)
    desk.send("a", expires=desk.now + 1e6, attributes={"n": "1"})
    desk.open("idle")
    desk.open("some", filter=Filter.of(n="1"))
    for _ in range(2_000):
        desk.roll_back("idle", desk.take("idle"))
    lanes = desk.queue._ready._lanes.values()
    assert all(len(lane.arrival) + len(lane.sorted) < 400 for lane in lanes)
    assert len(desk.queue._timers) < 400
