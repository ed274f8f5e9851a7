"""The pure decisions: when a batch is closed, who a message is, what a record is, who pauses."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stores.segments import (
    Backpressure,
    BatchLimits,
    InboundMessage,
    OutboundMessage,
    Pair,
    Place,
    SegmentError,
)
from stores.segments.batching import OpenBatch
from stores.segments.chain import Segment, SegmentChain, segment_name
from stores.segments.identity import Known, identify, numbered
from stores.segments.record import HEAD, decode, encode, next_intact, record_at


@pytest.mark.parametrize(
    ("adds", "now", "full"),
    [
        ([], 100.0, False),
        ([(1, 0.0)], 0.0, False),
        ([(1, 0.0)] * 3, 0.0, True),
        ([(60, 0.0), (40, 0.0)], 0.0, True),
        ([(1, 0.0), (1, 0.9)], 1.0, True),
        ([(1, 0.0), (1, 0.4)], 0.7, True),
        ([(1, 0.0), (1, 0.4)], 0.6, False),
        ([(1, 5.0)], 0.0, False),
    ],
)
def test_a_batch_is_closed_by_whatever_comes_first(
    adds: list[tuple[int, float]], now: float, full: bool
) -> None:
    batch = OpenBatch(BatchLimits(count=3, size=100, seconds=1, idle=0.3))
    for size, at in adds:
        batch.add(size, at)
    assert batch.is_full(now) is full
    assert (batch.wait(now) is None) == (not adds)


def test_limits_that_are_none_are_refused() -> None:
    for wrong in ({"count": 0}, {"count": 10_001}, {"size": 0}, {"seconds": -1}, {"idle": -1}):
        with pytest.raises(ValueError, match=r"count is|size"):
            BatchLimits(**wrong)


def test_an_id_is_of_the_origin_or_of_the_stream_or_of_the_producer() -> None:
    logged = InboundMessage("a/b", 3, 7, 8, b"", stream="s", sequence=1, producer_id="p")
    assert identify(logged, "site").id == "site/a%2Fb/3/7"
    queued = InboundMessage(
        "q", 0, 1, 2, b"", stream="s/1", sequence=9, producer_id="p", replayable=False
    )
    assert (identify(queued, "site").known, identify(queued, "site").seconds) == (
        Known.STREAM,
        None,
    )
    assert identify(queued, "site").id == "stream/q/s%2F1/9"
    named = InboundMessage("q", 0, 1, 2, b"", producer_id="p", replayable=False)
    assert identify(named, "site", 60).known is Known.PRODUCER
    assert identify(named, "site", 60).seconds == 60
    assert identify(named, "site").known is Known.NOT, "no window is declared"
    outputs = numbered(identify(logged, "site"), [OutboundMessage("t", "d", b"")] * 2)
    assert [each.id for each in outputs] == ["site/a%2Fb/3/7/0", "site/a%2Fb/3/7/1"]


MESSAGES = st.lists(
    st.builds(
        OutboundMessage,
        transport=st.just("t"),
        destination=st.text(max_size=5),
        value=st.none() | st.binary(max_size=30),
        key=st.none() | st.binary(max_size=3),
        headers=st.lists(st.tuples(st.text(max_size=3), st.binary(max_size=3)), max_size=3).map(
            tuple
        ),
        stream=st.none() | st.text(max_size=3),
        sequence=st.none() | st.integers(0, 2**63 - 1),
        id=st.text(max_size=5),
    ),
    min_size=1,
    max_size=4,
)


@given(messages=MESSAGES, offset=st.integers(0, 2**40), data=st.data())
def test_a_record_is_itself_or_damage(
    messages: list[OutboundMessage], offset: int, data: st.DataObject
) -> None:
    written = encode(messages, offset)
    found, at, places = [], 0, []
    while at < len(written):
        places.append(at)
        body = record_at(written, at, offset + at)
        assert body is not None
        found.append(decode(body, "t"))
        at += HEAD.size + len(body)
    assert found == messages
    where = data.draw(st.integers(0, len(written) - 1))
    damaged = bytearray(written)
    damaged[where] ^= data.draw(st.integers(1, 255))
    hit = max(place for place in places if place <= where)
    assert record_at(bytes(damaged), hit, offset + hit) is None
    assert record_at(written, hit, offset + hit + 1) is None, "it is another place's"
    following = [offset + place for place in places if place > hit] + [offset + len(written)]
    assert next_intact(bytes(damaged[hit:]), offset + hit) == following[0]


def test_zeros_are_no_record() -> None:
    assert record_at(bytes(100), 0, 0) is None


PAIR = Pair("orders", "kafka")


def test_start_goes_forward_only() -> None:
    chain = SegmentChain(
        PAIR, (Segment(1_000_000, "a", 0, 50, True), Segment(2_000_000, "b", 0, 10))
    )
    for wrong in (Place(1_000_000, 51), Place(2_000_000, 10)):
        with pytest.raises(SegmentError, match="START cannot move"):
            chain.published(wrong)
    chain = chain.published(Place(1_000_000, 50))
    assert chain.segments[0].finished
    assert chain.to_publish == Segment(2_000_000, "b", 0, 10)
    with pytest.raises(SegmentError, match="another generation owns"):
        chain.check_number(1_000_001, "c")


def test_what_the_destination_has_beats_what_sql_knows() -> None:
    chain = SegmentChain(PAIR, (Segment(1, "a", 0, 50, True), Segment(2, "b", 0, 30)))
    assert [each.start for each in chain.resumed(Place(2, 10), 0).segments] == [50, 10]
    assert chain.resumed(None, 0) is chain
    assert [each.start for each in chain.resumed(Place(1, 20), 0).segments] == [20, 0]
    for beyond in (Place(2, 31), Place(3, 1)):
        with pytest.raises(SegmentError, match="more than was ever promised"):
            chain.resumed(beyond, 0)


def test_a_full_transport_pauses_its_sources_until_half_is_published() -> None:
    pressure = Backpressure({}).next({"down": 100, "up": 10}, 100)
    assert pressure.paused
    assert set(pressure.full) == {"down"}
    assert pressure.next({"down": 60, "up": 60}, 100).full == {"down": 60}
    assert not pressure.next({"down": 50, "up": 10}, 100).paused


def test_a_name_carries_topic_transport_and_time() -> None:
    assert segment_name("r", PAIR, 7, 0.0) == "r+orders+kafka+19700101T000000-7.segment"
    for wrong in ("../etc", "a/b", "", ".hidden", "a+b", "x" * 205):
        with pytest.raises(ValueError, match="topics and transports with"):
            segment_name("r", Pair(wrong, "kafka"), 7, 0.0)
