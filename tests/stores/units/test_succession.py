"""What a new owner makes of what the former owner's sessions tell: pure, without a broker."""

from hypothesis import given
from hypothesis import strategies as st

from stores.units.queue import Delivery, UnitMessage, UnitQueue
from stores.units.server.succession import Succession
from topology.ordered_commit.offset_ranges import OffsetRanges


def new_owner(units: list[str], former: set[str]) -> tuple[UnitQueue, Succession]:
    """A queue that was restored from the beginning, and has read messages of these units."""
    queue = UnitQueue()
    queue.restore({}, 0, OffsetRanges(), 0.0, former)
    for offset, unit in enumerate(units):
        queue.arrive(UnitMessage(offset, unit), 0.0)
    return queue, Succession(former)


def decide(queue: UnitQueue, succession: Succession) -> dict[str, list[int]] | None:
    def settle() -> None:
        queue.settled(queue.take_changes().number, 0.0)

    found = succession.decide(queue, 0.0, settle)
    settle()
    return None if found is None else {name: got(has) for name, has in found.items()}


def got(deliveries: list[Delivery]) -> list[int]:
    return [each.message.offset for each in deliveries]


def test_nothing_is_decided_before_all_have_told_and_all_they_tell_of_is_read() -> None:
    queue, succession = new_owner(["u"], {"a", "b"})
    queue.open_session("a")
    assert succession.tell("a", [1], [])
    assert decide(queue, succession) is None
    succession.forget("b")
    assert decide(queue, succession) is None
    queue.arrive(UnitMessage(1, "u"), 0.0)
    assert decide(queue, succession) == {"a": [1]}


def test_what_was_returned_is_waited_for_too() -> None:
    """It was decided before that was read, which failed, and the member delivered nothing more."""
    queue, succession = new_owner(["u"], {"a"})
    queue.open_session("a")
    succession.tell("a", [], [0], [2])
    assert decide(queue, succession) is None
    queue.arrive(UnitMessage(1, "u"), 0.0)
    queue.arrive(UnitMessage(2, "u"), 0.0)
    assert decide(queue, succession) == {"a": []}
    assert succession.over


def test_what_was_handed_out_proves_that_all_before_it_in_the_unit_is_complete() -> None:
    """A completed 0, which never became durable, and died together with the former owner."""
    queue, succession = new_owner(["u", "v", "u", "u"], {"a", "b"})
    queue.open_session("b")
    succession.tell("b", [2], [])
    succession.forget("a")
    assert decide(queue, succession) == {"b": [2]}
    queue.open_session("c", prefetch=9)
    assert got(queue.next("c", 0.0)) == [1]


def test_what_one_completed_and_another_holds_is_known_whoever_tells_first() -> None:
    for order in (["a", "b"], ["b", "a"]):
        queue, succession = new_owner(["u", "u", "u"], {"a", "b"})
        tells: dict[str, tuple[list[int], list[int]]] = {"a": ([], [0]), "b": ([1], [])}
        for name in order:
            queue.open_session(name)
            succession.tell(name, *tells[name])
        assert decide(queue, succession) == {"a": [], "b": [1]}
        assert queue.take_changes().position == 1


def test_of_several_that_a_session_took_each_is_what_it_says() -> None:
    queue, succession = new_owner(["u", "u", "u"], {"a"})
    queue.open_session("a", prefetch=3)
    succession.tell("a", [0, 2], [1])
    assert decide(queue, succession) == {"a": [0, 2]}


def test_what_was_returned_after_a_later_one_was_completed_is_not_lost() -> None:
    """It completed 1, then rolled 0 back, and neither was durable."""
    queue, succession = new_owner(["u", "u", "u"], {"a"})
    queue.open_session("a", prefetch=2)
    succession.tell("a", [], [1], [0])
    assert decide(queue, succession) == {"a": []}
    queue.open_session("b", prefetch=9)
    assert got(queue.next("b", 0.0)) == [0, 2]


def test_what_was_returned_is_whose_it_was_since() -> None:
    tells: list[tuple[list[int], list[int], dict[str, list[int]]]] = [
        ([0], [], {"a": [], "b": [0]}),
        ([], [0], {"a": [], "b": []}),
        ([2], [], {"a": [], "b": [2]}),
    ]
    for held, completed, expected in tells:
        queue, succession = new_owner(["u", "u", "u"], {"a", "b"})
        for name in "ab":
            queue.open_session(name, prefetch=2)
        succession.tell("a", [], [1], [0])
        succession.tell("b", held, completed)
        assert decide(queue, succession) == expected
        queue.close_session("b", 0.0)
        queue.settled(queue.take_changes().number, 0.0)
        left = got(queue.next("a", 0.0))
        assert (0 in left) == (held == [0])


def test_who_comes_after_the_decision_holds_nothing() -> None:
    queue, succession = new_owner(["u"], {"a"})
    succession.forget("a")
    assert decide(queue, succession) == {}
    assert not succession.tell("a", [0], [])


@given(st.lists(st.sampled_from("uvw"), min_size=1, max_size=20), st.data())
def test_no_session_loses_what_it_holds_and_nobody_gets_what_precedes_it(
    units: list[str], data: st.DataObject
) -> None:
    """A former owner handed out without waiting for what is durable; some sessions died."""
    before = UnitQueue()
    sessions = ["a", "b", "c"]
    for name in sessions:
        before.open_session(name, prefetch=2)
    for offset, unit in enumerate(units):
        before.arrive(UnitMessage(offset, unit), 0.0)
    held: dict[str, list[Delivery]] = {name: [] for name in sessions}
    done: dict[str, list[int]] = {name: [] for name in sessions}
    for name in data.draw(st.lists(st.sampled_from(sessions), max_size=40)):
        completes: bool = data.draw(st.booleans())
        if held[name] and completes:
            delivery = held[name].pop(data.draw(st.integers(0, len(held[name]) - 1)))
            before.complete(name, [delivery.number], 0.0)
            done[name].append(delivery.message.offset)
            before.settled(before.take_changes().number, 0.0)
        else:
            held[name] += before.next(name, 0.0)
    alive = data.draw(st.lists(st.sampled_from(sessions), unique=True))
    queue, succession = new_owner(units, set(sessions))
    for name in sessions:
        if name in alive:
            queue.open_session(name, prefetch=2)
            succession.tell(name, got(held[name]), done[name])
        else:
            succession.forget(name)
    found = decide(queue, succession)
    assert found is not None
    assert {name: sorted(found[name]) for name in alive} == {
        name: sorted(got(held[name])) for name in alive
    }
    completed = {offset for name in alive for offset in done[name]}
    queue.open_session("new", prefetch=100)
    for delivery in queue.next("new", 0.0):
        assert delivery.message.offset not in completed
        for name in alive:
            assert delivery.message.unit not in {each.message.unit for each in held[name]}


def test_what_the_only_session_holds_does_not_expire_while_all_is_being_decided() -> None:
    queue = UnitQueue()
    queue.restore({}, 0, OffsetRanges(), 0.0, {"a"})
    for offset in range(2):
        queue.arrive(UnitMessage(offset, "u", expires=5.0), 0.0)
    succession = Succession({"a"})
    queue.open_session("a")
    succession.tell("a", [0], [])
    found = succession.decide(queue, 9.0, lambda: queue.settled(queue.take_changes().number, 9.0))
    assert found is not None
    assert got(found["a"]) == [0]
    queue.open_session("b")
    assert got(queue.next("b", 9.0)) == []
