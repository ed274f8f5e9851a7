"""A rebuild by itself: its limits, its policies, and what it tells."""

from collections.abc import Iterator
from typing import Any

import orjson
import pytest

from tests.topology.deliveries import Arrival, body, records
from tests.topology.partition import INSPECTOR, shop
from tests.topology.view_rebuild.rows import ReadStore, begun, rebuilt
from topology import (
    Emit,
    Event,
    Message,
    Record,
    Topology,
    Upsert,
    earliest_seen,
    first,
    halt,
    monotonic,
    park,
    retry,
)
from topology.engine.output.output_chain import START, chained
from topology.engine.state.rows import encode_progress, progress_key
from topology.model.origin_headers import ORIGIN, origin
from topology.sequencer.progress import Progress
from topology.testing.simulation.fold import fold
from topology.verbs import count
from topology.verbs import events as read
from topology.view_rebuild import CannotRebuild, HistoryPart, Rebuild, Rebuilt
from topology.view_rebuild.limit import Limit, limit_of


def state(**lasts: int | bytes) -> dict[str, dict[bytes, bytes]]:
    """Stream → its last processed sequence, or its whole row."""
    return {
        "board": {
            progress_key(stream): last if isinstance(last, bytes) else b"%d" % last
            for stream, last in lasts.items()
        }
    }


def events(stream: str, *numbers: int) -> list[Any]:
    return records([Arrival(stream, number - 1, 1000 * number) for number in numbers])


def last(event: Event) -> Iterator[Upsert]:
    yield Upsert("board", key={"id": event.stream}, values={"last": event.sequence})


def test_it_goes_as_far_as_the_live_view_and_no_further() -> None:
    found, tally = rebuilt(shop(handler=last), events("a", 3, 1, 2, 4, 2, 5), state(a=3))
    assert [(record.stream, record.sequence) for record in found] == [("a", 3)]
    assert ReadStore().apply([found[0].value]).plain() == {"board": {b'{"id":"a"}': {"last": 3}}}
    assert (tally["board"].processed, tally["board"].duplicate) == (3, 1)
    assert not tally["board"].incomplete


def test_a_stream_that_the_live_view_does_not_know_is_left_to_it() -> None:
    found, tally = rebuilt(shop(handler=last), events("b", 1, 2), state(a=2))
    assert found == []
    assert (tally["board"].streams, tally["board"].absent) == (1, 1)
    assert tally["board"].incomplete


def test_what_the_live_view_had_and_the_history_lacks_is_told() -> None:
    topology = shop(handler=last)
    skipped = encode_progress(_progress(9, (3, 4)), None)
    _, tally = rebuilt(topology, events("a", 1, 2, 5, 7, 8, 9), state(a=skipped))
    assert (tally["board"].skipped, tally["board"].missing) == (3, 1)
    _, tally = rebuilt(topology, events("a", 1, 2, 5, 6), state(a=skipped))
    assert (tally["board"].processed, tally["board"].missing) == (4, 3)


def _progress(last: int, *skipped: tuple[int, int]) -> Any:
    return Progress(last, skipped=skipped)


@pytest.mark.parametrize(
    ("limit", "first", "last", "step", "lost"),
    [
        (Limit(9), 1, 4, 1, 4),
        (Limit(9, ((2, 3),)), 1, 4, 1, 2),
        (Limit(9, ((1, 9),)), 1, 4, 1, 0),
        (Limit(90, ((11, 31),)), 1, 41, 10, 2),
        (Limit(9, ((5, 6),), 4), 1, 7, 1, 1),
        (Limit(9, ((5, 6),), 4), 1, 3, 1, 0),
        (Limit(9, ((5, 6),), 2), 1, 7, 1, 3),
        (Limit(90, ((31, 51),), 11), 1, 61, 10, 2),
    ],
)
def test_what_the_live_view_gave_up_is_not_lost(
    limit: Limit, first: int, last: int, step: int, lost: int
) -> None:
    assert limit.lost(first, last, step) == lost


def test_a_limit_is_read_from_a_row_with_state() -> None:
    assert limit_of(b"17") == Limit(17)
    assert limit_of(b'{"last":17,"state":{"n":1}}') == Limit(17)


def offset(event: Event) -> Iterator[Upsert]:
    yield Upsert("board", key={"id": event.stream}, values={"at": event.message.offset})


@pytest.mark.parametrize("most", [2, 50])
def test_a_stream_that_was_dropped_is_what_came_since(most: int) -> None:
    numbers = (1, 2, 3, 1, 2)
    messages = records([Arrival("a", n - 1, 1000 * at) for at, n in enumerate(numbers)])
    dropped = encode_progress(Progress(2, epoch=1, anew=3), None)
    found, tally = rebuilt(shop(handler=offset), messages, state(a=dropped), most=most)
    assert orjson.loads(found[-1].value)["epoch"] == 1
    rows = ReadStore().apply([record.value for record in found]).plain()["board"]
    assert list(rows.values()) == [{"at": 4}]
    assert (tally["board"].processed, tally["board"].incomplete) == (2, False)

    topology = shop(handler=offset, keyed=False)
    again = [
        Record("shop.orders.by-stream", 0, 100 + each.offset, b"a", each.value,
               ((ORIGIN, origin(each)),), each.timestamp)
        for each in messages
    ]  # fmt: skip
    dropped = encode_progress(Progress(2, epoch=1, anew=103), None)
    found, tally = rebuilt(topology, again, state(a=dropped), most=most)
    rows = ReadStore().apply([record.value for record in found]).plain()["board"]
    assert (list(rows.values()), tally["board"].incomplete) == ([{"at": 4}], False)
    # Where the source's own messages are in the view's input, nobody knows.
    found, tally = rebuilt(topology, messages, state(a=dropped), most=most)
    assert (found, tally["board"].absent, tally["board"].incomplete) == ([], 0, True)
    assert tally["board"].unplaced == 1
    # Together they say it.
    found, tally = rebuilt(topology, [*messages, *again], state(a=dropped), most=most)
    rows = ReadStore().apply([record.value for record in found]).plain()["board"]
    assert (list(rows.values()), tally["board"].incomplete) == ([{"at": 4}], False)


def test_a_dropped_stream_of_a_keyed_source_that_is_not_in_the_history_is_absent() -> None:
    dropped = encode_progress(Progress(2, epoch=1, anew=3), None)
    _, tally = rebuilt(shop(handler=offset), events("a", 1, 2), state(a=dropped))
    assert (tally["board"].absent, tally["board"].unplaced) == (1, 0)


def failing(*numbers: int, times: int = 1_000) -> Any:
    left = dict.fromkeys(numbers, times)

    def handler(event: Event, state: dict[str, Any]) -> Iterator[Upsert]:
        if left.get(event.sequence, 0) > 0:
            left[event.sequence] -= 1
            raise ValueError(f"order {event.sequence} is broken")
        state["seen"] = [*state.get("seen", []), event.sequence]
        yield Upsert("board", key={"id": event.stream}, values={"seen": state["seen"]})

    return handler


def seen(found: list[Any], stream: str = "a") -> Any:
    rows = ReadStore().apply([record.value for record in found]).plain()["board"]
    return rows[orjson.dumps({"id": stream})]["seen"]


def test_a_failure_is_passed_as_the_live_view_passed_it() -> None:
    found, tally = rebuilt(shop(handler=failing(2)), events("a", 1, 2, 3), state(a=3))
    assert seen(found) == [1, 3]
    assert (tally["board"].failed, tally["board"].processed) == (1, 2)
    assert "order 2 is broken" in tally["board"].reports[0]


def test_retries_need_no_time() -> None:
    topology = shop(handler=failing(2, times=3), error=retry(times=3, backoff=100))
    found, tally = rebuilt(topology, events("a", 1, 2, 3), state(a=3))
    assert seen(found) == [1, 2, 3]
    assert tally["board"].failed == 0


@pytest.mark.parametrize("most", [1, 50])
def test_a_stream_that_parks_ends_before_the_failed_event(most: int) -> None:
    messages = events("a", 1, 2, 3, 4) + events("b", 1, 2)
    topology = shop(handler=failing(3), error=park())
    found, tally = rebuilt(topology, messages, state(a=4, b=2), most=most)
    assert seen(found) == [1, 2]
    assert seen(found, "b") == [1, 2]
    assert tally["board"].parked == 1
    assert {record.stream: record.sequence for record in found} == {"a": 2, "b": 2}


def test_a_view_that_halts_cannot_be_rebuilt() -> None:
    with pytest.raises(CannotRebuild, match="order 2 is broken"):
        rebuilt(shop(handler=failing(2), error=halt()), events("a", 1, 2, 3), state(a=3))


def test_messages_to_other_topics_are_kept_apart() -> None:
    def handler(event: Event) -> Iterator[Any]:
        yield from last(event)
        yield Emit("log", event.stream, {"n": event.sequence})

    topology = shop(handler=handler)
    (source,) = topology.sources.values()
    rebuild = Rebuild(topology, source, ["board"], 0, emit=True)
    messages = events("a", 2, 1)
    part = HistoryPart("a", [("board", "a", b"2")], messages)
    assert len(list(rebuild.run([part]))) == 1
    assert [(topic, out[1]) for topic, out in rebuild.emits()] == [
        ("log", b'{"n":1}'),
        ("log", b'{"n":2}'),
    ]
    assert rebuild.emits() == []


def held(parts: int, *, emit: bool, handler: Any) -> list[int]:
    """How many messages of a handler a rebuild holds behind each of its turns of ten streams."""
    topology = shop(handler=handler)
    (source,) = topology.sources.values()
    rebuild = Rebuild(topology, source, ["board"], 0, emit=emit, batch=40)
    streams = (f"s{n}" for n in range(parts))
    history = (HistoryPart(s, [("board", s, b"3")], events(s, 1, 2, 3)) for s in streams)
    found = []
    for turn in rebuild.turns(history):
        assert all(isinstance(each, Rebuilt) for each in turn)
        found.append(len(rebuild.emits()))
    return found


@pytest.mark.parametrize("rows", [True, False])
def test_messages_to_other_topics_are_held_for_a_turn_and_only_if_wanted(rows: bool) -> None:
    """Also those of a view that writes no row, which no record is made of."""

    def handler(event: Event) -> Iterator[Any]:
        if rows:
            yield from last(event)
        yield Emit("log", event.stream, {"n": event.sequence})

    assert held(40, emit=True, handler=handler) == [30, 30, 30, 30]
    assert held(40, emit=False, handler=handler) == [0, 0, 0, 0]


def test_the_hash_of_a_stream_is_that_of_its_outputs() -> None:
    topology = shop(handler=last)
    messages = events("a", 2, 1, 3)
    ((record), _) = rebuilt(topology, messages, state(a=2), chains=True)
    chain = START
    (view,) = topology.views.values()
    in_order = sorted(messages, key=lambda m: orjson.loads(m.value or b"")["sequence"])
    for sequence, value in fold(view, in_order).outputs[:2]:
        chain = chained(chain, sequence, value)
    assert [each.chain for each in record] == [chain]


def test_a_stream_of_many_rows_has_several_records() -> None:
    def handler(event: Event) -> Iterator[Any]:
        for row in range(100):
            yield Upsert("board", key={"row": event.sequence * 100 + row}, values={"n": 1})

    messages = events("a", *range(1, 101))
    found, tally = rebuilt(shop(handler=handler), messages, state(a=100), most=10)
    assert len(found) > 2
    assert [r.sequence for r in found] == sorted({r.sequence for r in found})
    assert len(ReadStore().apply([r.value for r in found]).plain()["board"]) == 10_000
    assert tally["board"].outputs == 100


def closing(event: Event, state: dict[str, Any]) -> Iterator[Upsert]:
    state["seen"] = [*state.get("seen", []), event.sequence]
    yield Upsert("board", key={"id": event.stream}, values={"seen": state["seen"]})


def lives() -> list[Any]:
    """A stream that is closed at 2 s by its second event, and comes again at 4 s."""
    messages = events("a", 1, 2, 4, 5)
    messages[1].value = body("a", 2, kind="Closed")
    return messages


@pytest.mark.parametrize(("retention", "handled"), [(1, [4, 5]), (100, [1, 2])])
def test_a_stream_that_was_closed_for_long_begins_anew(
    retention: float, handled: list[int]
) -> None:
    topology = begun(closing, earliest_seen(after=1), closes="Closed", retention=retention)
    found, _ = rebuilt(topology, lives(), state(a=5), at=100_000)
    assert seen(found) == handled


def test_a_stream_that_the_live_view_forgot_is_rebuilt_up_to_its_end() -> None:
    topology = begun(closing, earliest_seen(after=1), closes="Closed", retention=10)
    found, _ = rebuilt(topology, lives(), {"board": {}}, at=100_000)
    assert seen(found) == [1, 2]
    # One that was closed just now is one that the live view has yet to see.
    assert rebuilt(topology, lives(), {"board": {}}, at=5_000)[0] == []


def begins_again() -> list[Any]:
    """A stream that was closed at 2 s and at 7 s, and forgotten each time."""
    messages = events("a", 1, 2, 4, 5, 6, 7)
    messages[1].value, messages[5].value = (body("a", n, kind="Closed") for n in (2, 7))
    return messages


@pytest.mark.parametrize("most", [1, 2, 3, 5, 50])
@pytest.mark.parametrize("start", [earliest_seen(after=1), first()])
def test_a_long_stream_that_the_live_view_forgot_is_rebuilt_from_its_first_event(
    start: Any, most: int
) -> None:
    """Its limit is known with its last closing event, in another batch."""
    topology = begun(closing, start, closes="Closed", retention=10)
    messages = events("a", 1, 2, 3, 4)
    messages[3].value = body("a", 4, kind="Closed")
    found, tally = rebuilt(topology, messages, {"board": {}}, at=100_000, most=most)
    assert seen(found) == [1, 2, 3, 4]
    assert not tally["board"].incomplete
    topology = begun(closing, earliest_seen(after=1), closes="Closed", retention=1)
    found, tally = rebuilt(topology, begins_again(), {"board": {}}, at=100_000, most=most)
    assert seen(found) == [4, 5, 6, 7]
    assert not tally["board"].incomplete


@pytest.mark.parametrize("most", [1, 2, 3, 50])
def test_what_waits_in_a_long_stream_of_a_view_that_closes_comes_at_its_end(most: int) -> None:
    topology = begun(closing, earliest_seen(after=1), closes="Closed", retention=10)
    found, tally = rebuilt(topology, events("a", 1, 2, 4, 5), state(a=5), most=most)
    assert seen(found) == [1, 2, 4, 5]
    assert (tally["board"].missing, tally["board"].absent) == (1, 0)


@pytest.mark.parametrize("most", [1, 2, 3, 4, 5, 50])
@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("lane", [None, lambda event: "one"])
def test_what_waits_when_a_stream_is_closed_comes_before_its_next_life(
    known: bool, most: int, lane: Any
) -> None:
    def handler(event: Event) -> Iterator[Upsert]:
        yield Upsert("board", key={"n": event.sequence}, values={"stream": event.stream})

    topology = begun(handler, earliest_seen(after=1), closes="Closed", retention=1, lane=lane)
    messages = events("a", 1, 3, 4, 7, 8)
    messages[2].value, messages[4].value = (body("a", n, kind="Closed") for n in (4, 8))
    live = state(**{"a|one" if lane else "a": 8}) if known else {"board": {}}
    found, _ = rebuilt(topology, messages, live, at=100_000, most=most)
    rows = ReadStore().apply([record.value for record in found]).plain()["board"]
    assert [orjson.loads(key)["n"] for key in rows] == [1, 3, 4, 7, 8]


def test_a_message_under_another_stream_is_told() -> None:
    topology = shop(handler=last)
    (source,) = topology.sources.values()
    rebuild = Rebuild(topology, source, ["board"], 0)
    with pytest.raises(CannotRebuild, match="--history sources"):
        list(rebuild.run([HistoryPart("b", [], events("a", 1))]))


def test_without_folding_each_output_is_a_record() -> None:
    found, tally = rebuilt(shop(handler=last), events("a", 2, 1, 3), state(a=3), fold=False)
    assert [record.sequence for record in found] == [1, 2, 3]
    assert (tally["board"].outputs, tally["board"].tables) == (3, ["board"])


@pytest.mark.parametrize("fold", [True, False])
def test_records_are_of_the_epoch_in_which_the_live_view_made_the_stream(fold: bool) -> None:
    """Outputs of an earlier one, which may be followed at least once, are passed by then."""
    row = encode_progress(Progress(3, epoch=2), None)
    found, _ = rebuilt(shop(handler=last), events("a", 1, 2, 3), state(a=row), fold=fold)
    assert {orjson.loads(record.value).get("epoch") for record in found} == {2}
    found, _ = rebuilt(shop(handler=last), events("a", 1, 2, 3), state(a=3), fold=fold)
    assert {orjson.loads(record.value).get("epoch") for record in found} == {None}


def test_messages_to_other_views_are_of_that_epoch_too() -> None:
    topology = Topology("shop")
    source = topology.source("orders", inspector=INSPECTOR, keyed=True)
    of_all = read(topology, source).by(lambda content: "all")
    of_all.fold(count(), name="n").to_rows("n")
    (view,) = topology.views_of(source)
    rebuild = Rebuild(topology, source, [view.name], 0, emit=True)
    row = encode_progress(Progress(1, epoch=2), None)
    list(rebuild.run([HistoryPart("a", [(view.name, "a", row)], events("a", 1))]))
    ((_, (_, _, _, headers)),) = rebuild.emits()
    assert dict(headers)["epoch"] == b"2"


def test_what_is_no_event_is_counted() -> None:
    topology = Topology("shop")

    def inspect(message: Message) -> Any:
        found = orjson.loads(message.value or b"")
        return None if found is None else ("a", found, None, found)

    source = topology.source("orders", inspector=inspect, keyed=True, sequence=monotonic(settle=1))
    topology.view("board", of=source, handler=last)
    values = (b"1", b"no JSON", b"null", b"3")
    messages = [Record("orders", 0, at, b"a", value) for at, value in enumerate(values)]
    rebuild = Rebuild(topology, source, ["board"], 0)
    parts = [HistoryPart("", [], messages[1:2]), HistoryPart("a", [("board", "a", b"3")], messages)]
    assert len(list(rebuild.run(parts))) == 1
    tally = rebuild.finish()["board"]
    assert (tally.processed, tally.malformed, tally.unknown) == (2, 2, 1)


@pytest.mark.parametrize("most", [1, 50])
@pytest.mark.parametrize("fold", [True, False])
def test_a_stream_that_writes_nothing_has_a_record_where_every_stream_has(
    fold: bool, most: int
) -> None:
    """All streams that the live view knows and the history has; up to where the live view is."""

    def handler(event: Event) -> Iterator[Upsert]:
        if event.stream == "b":
            yield from last(event)

    messages = events("a", 1, 2, 3) + events("b", 1) + events("new", 1)
    known = state(a=2, b=1, absent=4)
    found, tally = rebuilt(shop(handler=handler), messages, known, every=True, fold=fold, most=most)
    said = {(r.stream, r.sequence): orjson.loads(r.value)["changes"] for r in found}
    assert said.pop(("a", 2)) == []
    assert ("b", 1) in said
    assert {stream for stream, _ in said} == {"b"}
    assert tally["board"].absent == 1
    assert {r.stream for r in rebuilt(shop(handler=handler), messages, known)[0]} == {"b"}


def test_what_of_a_long_stream_is_silent_is_rebuilt_up_to_the_end_where_every_stream_is() -> None:
    def handler(event: Event) -> Iterator[Upsert]:
        for row in range(3_000 if event.sequence == 1 else 0):
            yield Upsert("board", key={"row": row}, values={"n": 1})

    messages = events("a", 1, 2, 3)
    found, _ = rebuilt(shop(handler=handler), messages, state(a=3), every=True, most=1)
    assert [record.sequence for record in found] == [1, 3]
