"""Bodies of which only some fields are read are events as those that are read whole."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import orjson
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pyspark import cloudpickle

from stores.view_state.memory import MemoryTable
from topology import Event, Headers, Inspector, Topology, key, linked
from topology.engine.commit_unit import CommitUnit
from topology.engine.stream_task import StreamTask
from topology.inspectors import LazyJson
from topology.inspectors.json_in_short import BATCHES, FEW
from topology.model.event import Draft, Record, read_content
from topology.sequencer.memory_budget import measured
from topology.testing import TopologyTestDriver

ENDLESS = b'{"stream": "a", "seq": %d, "kind": "k", "amount": 1e999}'
numbers = st.sampled_from([
    b"0", b"-0", b"1", b"7", b"-1", b"1.0", b"1e0", b"00", b"+1", b"1.", b"9223372036854775807",
    b"9223372036854775808", b"-9223372036854775808", b"-9223372036854775809",
    b"18446744073709551616", b"1e999", b"-1e999", b"1e-999", b"NaN", b"Infinity", b"0x1",
])  # fmt: skip
texts = st.sampled_from([
    b'"a"', b'""', b'"\\u0061"', b'"\\ud83d\\ude00"', b'"\\ud800"', b'"\\udc00"', b'"\xc3\xa9"',
    b'"\xff"', b'"\xed\xa0\x80"', b'"\x00"', b'"a\nb"', b'"\\x"', b'"7"', b'"1-x"',
    b'"2026-11-29T10:00:00Z"', b'"00000000-0000-0000-0000-00000000000A"', b"'a'",
])  # fmt: skip
simple = numbers | texts | st.sampled_from([b"null", b"true", b"false", b"nul", b"", b"// x\n1"])
values = st.recursive(
    simple,
    lambda each: (
        st.lists(each, max_size=3).map(lambda found: b"[" + b",".join(found) + b"]")
        | st.lists(st.tuples(texts, each), max_size=3).map(
            lambda found: b"{" + b",".join(a + b":" + b for a, b in found) + b"}"
        )
    ),
    max_leaves=6,
)
names = st.sampled_from([
    b'"stream"', b'"seq"', b'"kind"', b'"s\\u0065q"', b'"other"', b'"\xc3\xa9"', b'"\xff"', b"seq",
])  # fmt: skip
entries = st.tuples(names, values) | st.tuples(
    st.sampled_from([b'"stream"', b'"seq"', b'"kind"']), st.sampled_from([b'"a"', b"1", b"2"])
)
bodies = st.lists(entries, max_size=6).map(
    lambda found: b"{" + b",".join(a + b":" + b for a, b in found) + b"}"
)
changes = st.lists(
    st.tuples(
        st.integers(0, 200),
        st.integers(0, 2),
        st.sampled_from([b"", b"0", b"e", b"-", b".", b'"', b"\\", b"{", b"}", b"[", b"]", b",",
                         b":", b" ", b"\t", b"\x0b", b"\x00", b"\xff", b"1e999", b"u"]),
    ),
    max_size=3,
)  # fmt: skip


def changed(body: bytes, changes: list[tuple[int, int, bytes]]) -> bytes:
    for at, size, new in changes:
        at %= len(body) + 1
        body = body[:at] + new + body[at + size :]
    return body


def said(event: Event) -> Any:
    content = event.content
    return ("refused", content.raw) if isinstance(content, LazyJson) else content


class Source:
    """A task that inspects."""

    def __init__(self, inspector: Inspector) -> None:
        topology = Topology("short")
        self.source = topology.source("in", inspector=inspector, keyed=True, partitions=1)
        topology.view("v", of=self.source, handler=lambda event: None)
        self.task = StreamTask(topology, self.source, 0, {"v": MemoryTable()})

    def events(self, *bodies: bytes | None) -> list[Event]:
        records = [Record("in", 0, at, b"a", body) for at, body in enumerate(bodies)]
        self.unit = CommitUnit("in", 0, now=1)
        return self.task.inspect(records, self.unit, 1)

    def outcome(self, bodies: list[bytes]) -> Any:
        events = self.events(*bodies)
        made = [(e.stream, e.sequence, e.kind, said(e), e.message, e.arrived) for e in events]
        return made, self.unit.malformed, self.unit.keyed


@pytest.mark.parametrize("stream", ["stream", key()])
@pytest.mark.parametrize("kind", [None, "kind"])
@pytest.mark.parametrize("sequence_type", ["auto", "timestamp"])
@given(st.lists(st.builds(changed, bodies, changes), min_size=1, max_size=4))
@example([ENDLESS % 3])
@example([b'{"stream": "a", "seq": 1, "kind": "k", "x": "\xff"}'])
@example([b'{"stream": "a", "seq": 1, "kind": "k", "x": "\xff", "y": 1e999}'])
@example([b'{"stream": "a", "seq": 1, "seq": 2, "kind": "k"}'])
@example([b'{"stream": 18446744073709551616, "seq": 1, "kind": "k"}'])
@example([b'{"stream": "a", "seq": 1, "kind": "k", "x": %s1%s}' % (b"[" * 1030, b"]" * 1030)])
@example([b'{"stream": "a", "seq": 1, "kind": "k", "x": %s1%s}' % (b"[" * 900, b"]" * 900)])
def test_in_short_as_whole_and_as_alone(
    stream: Any, kind: Any, sequence_type: Any, bodies: list[bytes]
) -> None:
    inspector = Inspector(stream, "seq", kind, sequence_type=sequence_type)
    short, whole, alone = Source(inspector), Source(inspector), Source(inspector)
    good = b'{"stream": "a", "seq": 1, "kind": "k"}'
    for event in whole.events(*[good] * (FEW + 1)):
        assert event.content
    del alone.source.inspect_whole.several  # type: ignore[attr-defined]
    outcome = alone.outcome(bodies)
    assert short.outcome(bodies) == outcome
    assert whole.outcome(bodies) == outcome


def unread(events: list[Event]) -> list[bool]:
    return [read_content(event) is None for event in events]


def test_the_content_is_decoded_when_it_is_asked_for_and_once() -> None:
    source = Source(Inspector("stream", "seq", "kind"))
    (event,) = source.events(b'{"stream": "a", "seq": 1, "kind": "k", "more": [1]}')
    assert unread([event]) == [True]
    assert measured(event) > 0
    assert unread([event]) == [True]
    content = event.content
    assert content == {"stream": "a", "seq": 1, "kind": "k", "more": [1]}
    assert event.content is content
    assert type(event) is Event
    with pytest.raises(AttributeError, match="cannot be set"):
        event.content = {}  # type: ignore[misc]


def test_what_is_shown_of_an_event_is_the_same_read_or_not() -> None:
    source = Source(Inspector("stream", "seq"))
    body = b'{"stream": "a", "seq": 1}'
    (event,) = source.events(body)
    whole = Event("a", 1, None, orjson.loads(body), event.message, 1)
    assert repr(event) == repr(whole)
    assert isinstance(event, Draft)


def test_bodies_are_read_whole_while_their_contents_are_asked_for() -> None:
    source = Source(Inspector("stream", "seq"))
    body = b'{"stream": "a", "seq": 1}'
    first = source.events(*[body] * (FEW + 1))
    assert all(unread(first))
    assert all(event.content for event in first)
    for _ in range(BATCHES):
        assert unread(source.events(body)) == [False]
    assert unread(source.events(body)) == [True]


def test_a_few_contents_that_are_asked_for_make_no_difference() -> None:
    source = Source(Inspector("stream", "seq"))
    for _ in range(3):
        found = source.events(*[b'{"stream": "a", "seq": 1}'] * 100)
        assert all(unread(found))
        assert all(event.content for event in found[:FEW])


def test_a_body_of_another_kind_leaves_the_rest_of_its_batch_whole() -> None:
    source = Source(Inspector("stream", "seq", "kind"))
    plain = b'{"stream": "a", "seq": 1, "kind": "k"}'
    found = source.events(plain, b'{"stream": "a", "seq": 1.0, "kind": null}', plain)
    assert unread(found) == [True, False, False]
    assert [event.kind for event in found] == ["k", None, "k"]


def test_it_travels_to_other_processes() -> None:
    # The same process would find its classes as they were.
    program = """if True:
        import pickle, sys
        from topology.model.event import Record, read_content
        inspect, found = pickle.load(sys.stdin.buffer), []
        body = b'{"stream": "a", "seq": 1, "more": 2}'
        assert inspect.several(iter([Record("in", 0, 0, None, body)]), 0, 1, found.append) is None
        print(found[0].sequence, read_content(found[0]), found[0].content["more"])
        print(inspect(Record("in", 0, 0, None, %r))[1])
    """
    sent = cloudpickle.dumps(Inspector("stream", "seq").compile())  # type: ignore[no-untyped-call]
    command = [sys.executable, "-c", program % (ENDLESS % 3)]
    done = subprocess.run(command, input=sent, capture_output=True)
    assert (done.stdout, done.stderr) == (b"1 None 2\n3\n", b"")


@pytest.mark.parametrize("name", ['q"', "back\\slash", "é", "a b"])
def test_any_name_can_be_read(name: str) -> None:
    source = Source(Inspector(key(), name))
    (event,) = source.events(orjson.dumps({name: 5}))
    assert (event.sequence, event.content) == (5, {name: 5})


def test_one_field_may_be_two_things() -> None:
    source = Source(Inspector("id", "id"))
    (event,) = source.events(b'{"id": 5}')
    assert (event.stream, event.sequence) == ("5", 5)


def driven(inspector: Any, handler: Callable[[Event], Iterator[Any]], **options: Any) -> Any:
    topology = Topology("short")
    source = topology.source("in", inspector=inspector, keyed=True, partitions=1, **options)
    topology.view("v", of=source, handler=handler)
    driver = TopologyTestDriver(topology)
    for sequence in (2, 1, 3):
        body = ENDLESS if sequence == 2 else ENDLESS.replace(b"1e999", b"1")
        driver.pipe("in", body % sequence, key="a")
    return driver


def test_a_number_beyond_a_float_kills_the_event_in_its_place_where_a_handler_looks() -> None:
    seen: list[int] = []

    def handler(event: Event) -> Iterator[Any]:
        seen.append(event.sequence)
        assert event.content["amount"] == 1
        yield from ()

    driver = driven(Inspector("stream", "seq", "kind"), handler)
    assert seen == [1, 2, 3]
    assert driver.counts("v").failed == 1


def test_a_number_beyond_a_float_is_nothing_to_a_handler_that_does_not_look() -> None:
    seen: list[int] = []

    def handler(event: Event) -> Iterator[Any]:
        seen.append(event.sequence)
        yield from ()

    driver = driven(Inspector("stream", "seq", "kind"), handler)
    assert seen == [1, 2, 3]
    assert driver.counts("v").failed == 0


@pytest.mark.parametrize("body", [ENDLESS % 1, b"{", b"[]"])
def test_a_link_that_cannot_be_read_makes_its_message_malformed(body: bytes) -> None:
    of_headers = Headers("stream", "seq", body="json")
    of_body = Inspector("stream", "seq")
    topology = Topology("short")
    for name, inspector in (("headers", of_headers), ("body", of_body)):
        source = topology.source(
            name, inspector=inspector, sequence=linked("previous"), keyed=True, partitions=1
        )
        topology.view(name, of=source, handler=lambda event: None)
    driver = TopologyTestDriver(topology)
    for name in ("headers", "body"):
        driver.pipe(name, body, key="a", headers=[("stream", b"a"), ("seq", b"1")])
    assert len(driver.read(topology.malformed_topic)) == 2
