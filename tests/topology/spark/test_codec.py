"""Messages and outcomes as one value each, and the order that a step takes messages in."""

from hypothesis import given
from hypothesis import strategies as st

from topology.model.event import Record
from topology.spark.codec import (
    REPORTS,
    Outcome,
    OutgoingRecord,
    decode_messages,
    decode_outcome,
    encode_messages,
    encode_outcome,
    in_order,
)

BYTES = st.none() | st.binary(max_size=30)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=10)
HEADERS = st.lists(st.tuples(TEXT, BYTES), max_size=3)
RECORDS = st.builds(
    Record,
    topic=st.sampled_from(["a", "b"]),
    partition=st.integers(0, 2),
    offset=st.integers(0, 50),
    key=BYTES,
    value=BYTES,
    headers=HEADERS.map(tuple),
    timestamp=st.integers(-1, 100),
)
SENT = st.builds(
    OutgoingRecord,
    topic=TEXT,
    partition=st.integers(-1, 5),
    inputs=st.integers(1, 5),
    key=BYTES,
    value=BYTES,
    headers=HEADERS,
)


@given(st.lists(RECORDS))
def test_messages_come_back_as_they_were(messages: list[Record]) -> None:
    assert list(decode_messages(encode_messages(messages))) == messages


@given(st.lists(SENT), st.lists(TEXT), st.dictionaries(TEXT, st.dictionaries(TEXT, st.integers(0))))
def test_an_outcome_comes_back_as_it_was(
    records: list[OutgoingRecord], reports: list[str], counts: dict[str, dict[str, int]]
) -> None:
    counts = {name: {what: n % 2**53 for what, n in of.items()} for name, of in counts.items()}
    outcome = Outcome(records, counts, reports)
    assert decode_outcome(encode_outcome(outcome)) == outcome


def test_reports_are_limited_and_can_hold_anything() -> None:
    outcome = Outcome(reports=["\ud800"] * (REPORTS + 5))
    found = decode_outcome(encode_outcome(outcome)).reports
    assert len(found) == REPORTS + 1
    assert found[0] == "\\ud800"
    assert found[-1] == "and 5 lines more"


@given(
    st.lists(RECORDS, unique_by=lambda r: (r.topic, r.partition, r.offset)),
    st.randoms(use_true_random=False),
)
def test_the_order_depends_on_the_messages_alone(messages: list[Record], chance: object) -> None:
    shuffled = list(messages)
    chance.shuffle(shuffled)  # type: ignore[attr-defined]
    ordered = in_order(shuffled)
    assert ordered == in_order(messages)
    assert sorted(map(repr, ordered)) == sorted(map(repr, messages))
    for place in {(m.topic, m.partition) for m in messages}:
        offsets = [m.offset for m in ordered if (m.topic, m.partition) == place]
        assert offsets == sorted(offsets)


def test_partitions_go_side_by_side() -> None:
    one = [Record("a", 0, at, None, b"", (), 10 * at) for at in range(3)]
    other = [Record("b", 0, at, None, b"", (), 10 * at + 5) for at in range(3)]
    assert [(m.topic, m.offset) for m in in_order([*other, *one])] == [
        ("a", 0), ("b", 0), ("a", 1), ("b", 1), ("a", 2), ("b", 2),
    ]  # fmt: skip
