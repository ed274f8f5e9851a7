"""What was refused waits with the rest of its stream, and comes again in order in its time."""

from sequitur.relay.outstanding import Outstanding
from stores.message import Message


def message(id: int, stream: str = "a") -> Message:
    return Message("orders", stream, id, None, b"12345", id=id)


def ids(messages: list[Message]) -> list[int]:
    return [each.id for each in messages]


def test_what_follows_a_refused_one_waits_behind_it() -> None:
    held = Outstanding(wait=1)
    held.refuse([message(1)], now=10)
    free = held.admit([message(2), message(3, "b"), message(4)])
    assert ids(free) == [3]
    assert (len(held), held.bytes, held.next) == (3, 15, 11)
    assert held.take(10.9, 100) == []
    assert ids(held.take(11, 100)) == [1, 2, 4]
    assert (len(held), held.bytes) == (0, 0)


def test_once_all_of_it_is_acknowledged_the_stream_goes_on() -> None:
    held = Outstanding(wait=1)
    held.refuse([message(1)], now=0)
    held.settle(taken := held.take(1, 10))
    assert ids(taken) == [1]
    assert ids(held.admit([message(2)])) == [2]


def test_refused_again_it_waits_twice_as_long() -> None:
    held = Outstanding(wait=1, most=3)
    due = []
    held.refuse([message(1)], now=0)
    for _ in range(4):
        due.append(held.next)
        taken = held.take(held.next, 10)
        held.refuse(taken, now=0)
        held.settle([])
    assert due == [1, 2, 3, 3]


def test_no_more_is_taken_at_a_time_than_so_many() -> None:
    held = Outstanding(wait=1)
    held.refuse([message(n) for n in range(1, 6)], now=0)
    first = held.take(1, 2)
    # Until these are acknowledged or refused, what is left of the stream is not passed by.
    assert ids(first) == [1, 2]
    assert ids(held.admit([message(9)])) == []
    held.settle(first)
    assert ids(held.take(1, 10)) == [3, 4, 5, 9]


def test_no_more_bytes_are_taken_at_a_time_than_there_is_room_for_but_one_at_least() -> None:
    held = Outstanding(wait=1)
    held.refuse([message(1), message(2), message(3, "b"), message(4, "b")], now=0)
    taken = []
    for room in (4, 10, 14):
        taken.append(held.take(1, 10, room))
        held.settle(taken[-1])
    assert [len(each) for each in taken] == [1, 2, 1]
    for stream in ("a", "b"):
        found = ids([each for some in taken for each in some if each.stream == stream])
        assert found == sorted(found)
        assert len(found) == 2
    assert (len(held), held.bytes, held.take(99, 10)) == (0, 0, [])


def test_many_streams_with_large_refused_messages_hold_back_themselves_alone() -> None:
    """All of their topic stood still once so many of them were refused that none was large."""
    held = Outstanding(wait=1, room_bytes=1_000)
    for number in range(1, 401):
        held.refuse([message(number, f"s{number}")], now=0)
        held.admit([message(1_000 + number, f"s{number}")])
    assert held.bytes <= 1_000
    assert held.whole == set()
    assert ids(held.admit([message(9_000, "other")])) == [9_000]
    taken = held.take(99, 1_000, room=1_500)
    assert len(taken) == 300, "of 5 bytes each, though their contents are in the log alone"
    assert not held.anew
    held.settle(taken[:1])
    assert held.anew, "what followed it is in the log"


def test_what_is_refused_of_a_part_is_in_front_of_the_rest() -> None:
    held = Outstanding(wait=1)
    held.refuse([message(n) for n in range(1, 6)], now=0)
    held.refuse(held.take(1, 2), now=1)
    assert ids(held.take(99, 10)) == [1, 2, 3, 4, 5]
