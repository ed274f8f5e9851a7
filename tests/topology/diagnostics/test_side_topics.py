"""What side topics have, read whatever is in them, chosen and grouped."""

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from topology.diagnostics import side_topics
from topology.diagnostics.side_topics import (
    SIDES,
    SideFilter,
    full_text,
    grouped,
    groups_text,
    list_text,
    side_record,
)
from topology.model.event import Record


def failure(offset: int, error: str, stream: str = "a", view: str = "board") -> Record:
    told = {
        "view": view,
        "stream": stream,
        "sequence": offset,
        "position": {"topic": "in", "partition": 1, "offset": 7},
        "error": error,
        "traceback": f"Traceback\n{error}",
        "done": "advance",
    }
    headers = [("view", view.encode())]
    return Record(
        "t.errors", 0, offset, stream.encode(), orjson.dumps(told), headers, 1000 * offset
    )


def test_failures_are_grouped_by_what_does_not_differ() -> None:
    errors = [
        "KeyError: 'N1'",
        "ValueError: no gate 17",
        "KeyError: 'N22'",
        "ValueError: no gate 3",
    ]
    found = [
        side_record("errors", failure(n, each, f"s{n}"))
        for n, each in enumerate([*errors, errors[0]])
    ]
    assert [(each.reason, each.count, len(each.streams)) for each in grouped(found)] == [
        ("KeyError: … (done: advance)", 3, 3),
        ("ValueError: no gate … (done: advance)", 2, 2),
    ]
    lines = list(groups_text("errors", grouped(found), 10_000))
    assert lines[-1] == "5 errors records in 2 groups"
    assert "9 s" not in lines[1]


def test_groups_and_their_streams_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(side_topics, "MOST_GROUPS", 3)
    monkeypatch.setattr(side_topics, "MOST_STREAMS", 4)
    reasons = ["A", "B", "C", "D", "E", "A", *"AAAAA"]
    found = [side_record("errors", failure(n, each, f"s{n}")) for n, each in enumerate(reasons)]
    groups = grouped(found)
    assert [(each.reason[:1], each.count, len(each.streams), each.more) for each in groups] == [
        ("A", 7, 4, True), ("…", 2, 2, False), ("B", 1, 1, False), ("C", 1, 1, False),
    ]  # fmt: skip
    lines = list(groups_text("errors", groups, 10_000))
    assert " 4+ " in lines[1]
    assert lines[-1] == "11 errors records in 4 groups"


def test_records_are_chosen_by_view_stream_reason_and_time() -> None:
    found = [
        side_record("errors", failure(n, "E", f"s{n % 2}", "ab"[n % 3 == 0])) for n in range(9)
    ]
    assert [each.offset for each in found if SideFilter(view="b").takes(each)] == [0, 3, 6]
    assert [each.offset for each in found if SideFilter(stream="s1").takes(each)] == [1, 3, 5, 7]
    assert [each.offset for each in found if SideFilter(since=3000, until=5000).takes(each)] == [
        3,
        4,
    ]
    assert not any(SideFilter(reason="F").takes(each) for each in found)
    listed = list(list_text("errors", found[7:], 9, 9000))
    assert listed[-1] == "9 errors records, the last 2 listed"


def test_one_in_full_has_the_message_and_the_traceback() -> None:
    lines = list(full_text(side_record("errors", failure(3, "E: \x1b[31m")), 5000))
    assert "came from: in/1 offset 7" in lines
    assert "Traceback" in lines
    assert "sequence: 3" in lines


@pytest.mark.parametrize("side", SIDES)
@given(
    key=st.none() | st.binary(max_size=9),
    value=st.none() | st.binary(max_size=40) | st.just(b'{"position": {"partition": "x"}}'),
    headers=st.lists(
        st.tuples(
            st.sampled_from(["view", "sequence", "sequitur-reason", "sequitur-origin", "h"]),
            st.sampled_from([b"1", b"a/1/2/3", b"\xff", b""]),
        ),
        max_size=6,
    ),
)
def test_whatever_is_in_a_side_topic_can_be_read(
    side: str, key: bytes | None, value: bytes | None, headers: list[tuple[str, bytes]]
) -> None:
    found = side_record(side, Record("t.x", 0, 5, key, value, headers, 9))
    assert list(full_text(found, 10))
    assert list(list_text(side, [found], 1, 10))
    assert list(groups_text(side, grouped([found]), 10))
    orjson.dumps(found.in_full())
