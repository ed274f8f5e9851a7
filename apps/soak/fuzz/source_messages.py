"""Messages on source topics: whatever their inspectors make of them, each is in one place."""

from typing import Any, NamedTuple

from hypothesis import strategies as st

from soak.fuzz.mutation import HEADERS, bodies, changed_bytes, headers
from stores.view_state.memory import MemoryTable
from topology import (
    Event,
    Inspector,
    Record,
    Topology,
    header,
    key,
    linked,
    monotonic,
    redeliver,
    skip,
    spill,
)
from topology.engine.stream_task import RekeyTask, StreamTask
from topology.inspectors import CloudEvents, Debezium, Headers, first_of

_ORDER = {"order": {"id": "A-17"}, "version": 3, "previous": 2, "type": "Paid"}
_CLOUD = {
    "specversion": "1.0",
    "id": "1",
    "source": "/orders",
    "type": "paid",
    "subject": "A-17",
    "sequence": "3",
    "data": {"amount": 12.5},
}
_ROW = {
    "before": None,
    "after": {"id": 17, "state": "paid"},
    "op": "u",
    "ts_ms": 1_700_000_000_000,
    "source": {"lsn": 24023128, "sequence": '["24023119","24023128"]', "table": "orders"},
}
_SAMPLES: tuple[Any, ...] = (
    *({**_ORDER, "version": at} for at in (1, 2, 7, 2**53, 2**63 - 1)),
    *({**_ORDER, "order": {"id": at}, "version": 2**63 - 1} for at in (1, 2, 3)),
    _CLOUD,
    _ROW,
    {"payload": _ROW, "schema": {}},
    b"17;3;Paid",
)
_NAMES = ["stream", "seq", "kind", "ce_id", "ce_specversion", "ce_source", "ce_type", "ce_sequence"]
_INSPECTORS: dict[str, Any] = {
    "json": Inspector(stream="order.id", sequence="version", kind="type"),
    "composed": Inspector(stream=("order.id", "type"), sequence="version"),
    "keyed": Inspector(stream=key(), sequence="version", kind=header("kind")),
    "headers": Headers(stream="stream", sequence="seq", kind="kind"),
    "cloud": CloudEvents(stream="subject"),
    "debezium": Debezium(stream="id"),
    "linked": Inspector(stream="order.id", sequence="version"),
    "times": Inspector(stream="order.id", sequence="version"),
    "first": first_of(
        CloudEvents(stream="subject"), Inspector(stream="order.id", sequence="version")
    ),
}
_SEQUENCES: dict[str, Any] = {
    "debezium": monotonic(settle=1),
    "linked": linked(previous="previous"),
    "times": monotonic(settle=1),
}


class SendResult(NamedTuple):
    """A message as it arrives."""

    key: bytes | None
    value: bytes | None
    headers: HEADERS


class Path:
    """The way of one source's messages: to the by-stream topic, and from there to a view."""

    def __init__(self, name: str, inspector: Any) -> None:
        self.topology = topology = Topology("fuzz")
        sequence = {"sequence": _SEQUENCES[name]} if name in _SEQUENCES else {}
        self.source = topology.source(name, inspector=inspector, **sequence)

        def seen(event: Event) -> None:
            """Keeps nothing."""

        topology.view("waits", of=self.source)(seen)
        if name not in _SEQUENCES:
            topology.view("skips", of=self.source, gap=skip(after=1), full=spill(), buffer=4)(seen)
            topology.view("again", of=self.source, full=redeliver(), buffer=4)(seen)
        self.rekey = RekeyTask(topology, self.source)
        self.tables = {name: MemoryTable() for name in topology.views}
        self.task = StreamTask(topology, self.source, 0, self.tables)
        self.sent = 0

    def take(self, message: SendResult) -> None:
        record = Record(
            self.source.topics[0],
            0,
            self.sent,
            message.key,
            message.value,
            message.headers,  # type: ignore[arg-type]
            1_000,
        )
        self.sent += 1
        unit = self.rekey.process([record], 2_000)
        out = [
            Record(self.source.by_stream, 0, self.task.intake.read + at, key, value, headers, now)
            for at, (key, value, now, headers) in enumerate(unit.keyed[self.source.by_stream])
        ]
        taken = self.rekey.intake
        assert (
            taken.read
            == self.sent
            == taken.malformed + taken.unknown + self.task.intake.read + (len(out))
        ), taken
        for name in (self.topology.malformed_topic, self.topology.unknown_topic):
            for _, _, _, said in unit.keyed[name]:
                assert all(type(value) is bytes or value is None for _, value in said)
        now = 3_000 + 700 * self.sent
        for name, rows in self.task.process(out, now, now - 700).rows.items():
            self.tables[name].write(rows)
        for name, view in self.task.views.items():
            counts = view.state.counts
            assert counts.received == counts.accounted, (name, counts)
            assert counts.received == self.task.intake.events, (name, counts)


class SourceMessages:
    """Each inspector on a topic of its own, each source with a view of each policy."""

    name = "source-messages"

    def strategy(self) -> st.SearchStrategy[tuple[str, list[SendResult]]]:
        """Some messages for one source: bodies of all formats, wherever they do not belong too."""
        message = st.builds(
            SendResult,
            st.none() | st.binary(max_size=20) | changed_bytes(b"A-17"),
            bodies(_SAMPLES),
            headers(_NAMES, [b"A-17", b"3", b"Paid", b"1.0"]),
        )
        return st.tuples(
            st.sampled_from(list(_INSPECTORS)), st.lists(message, min_size=1, max_size=12)
        )

    def run(self, input: tuple[str, list[SendResult]]) -> None:
        """Each is malformed, unknown, or an event, which is in one place of every view."""
        name, messages = input
        path = Path(name, _INSPECTORS[name])
        for message in messages:
            path.take(message)
