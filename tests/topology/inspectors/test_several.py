"""Many messages in a row are inspected as each would be alone."""

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stores.view_state.memory import MemoryTable
from topology import Event, Inspector, Record, Topology, header, key
from topology.engine.commit_unit import CommitUnit
from topology.engine.stream_task import StreamTask
from topology.model.event import damaged

bodies = st.one_of(
    st.none(),
    st.sampled_from([b"", b"{", b"[]", b"7", b"null", b"{}"]),
    st.builds(
        orjson.dumps,
        st.fixed_dictionaries(
            {},
            optional={
                "stream": st.sampled_from(["a", "b", "", 1, True, 1.0, None, [], {"x": 1}]),
                "seq": st.sampled_from([0, 1, 2, -1, 2**63 - 1, 2**63, "3", "x", 4.0, True, None]),
                "kind": st.sampled_from(["k", 5, True, None, []]),
            },
        ),
    ),
)
messages = st.tuples(bodies, st.sampled_from([b"a", b"b", b"\xff", b"", None]), st.booleans())


def outcome(task: StreamTask, records: list[Record]) -> Any:
    unit = CommitUnit("in", 0, now=1)
    events = task.inspect(records, unit, 1)
    assert all(isinstance(event, Event) for event in events)
    made = [(e.stream, e.sequence, e.kind, e.content, e.message, e.arrived) for e in events]
    return made, unit.malformed, unit.keyed


@pytest.mark.parametrize("stream", ["stream", key()])
@pytest.mark.parametrize("kind", [None, "kind"])
@pytest.mark.parametrize("sequence_type", ["auto", "number", "timestamp"])
@given(st.lists(messages, max_size=8))
def test_together_as_alone(
    stream: Any, kind: Any, sequence_type: Any, found: list[tuple[Any, Any, bool]]
) -> None:
    topology = Topology("several")
    inspector = Inspector(stream, "seq", kind, sequence_type=sequence_type)
    source = topology.source("in", inspector=inspector, keyed=True, partitions=1)
    topology.view("v", of=source, handler=lambda event: None)
    records: list[Record] = [
        Record("in", 0, at, own, body) for at, (body, own, _) in enumerate(found)
    ]
    given_: list[Record] = [
        damaged(record, "torn") if torn else record
        for record, (_, _, torn) in zip(records, found, strict=True)
    ]
    task = StreamTask(topology, source, 0, {"v": MemoryTable()})
    assert hasattr(source.inspect_whole, "several")
    together = outcome(task, given_)
    del source.inspect_whole.several
    assert outcome(task, given_) == together


@pytest.mark.parametrize("inspector", [
    Inspector("stream", "seq", key()),
    Inspector("stream", key()),
    Inspector("order.stream", "seq"),
    Inspector(("stream", "seq"), "seq"),
    Inspector(header("stream"), "seq"),
])  # fmt: skip
def test_other_fields_are_inspected_one_by_one(inspector: Inspector) -> None:
    assert not hasattr(inspector.compile(), "several")
