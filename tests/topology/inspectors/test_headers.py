"""Messages that say everything in their headers; a body that is opaque, or JSON when asked."""

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.topology.inspectors.garbage import headers_of, taken
from topology import DeclarationError, Headers, Inspected, Malformed, Record, Topology, key
from topology.inspectors import LazyJson
from topology.testing import TopologyTestDriver

HEADERS = (("stream", b"a"), ("n", b"3"), ("kind", b"Paid"), ("shop", b"x|y"))


def inspect(inspector: Headers, value: bytes | None = b"\x00\xff", **fields: Any) -> Inspected:
    headers = fields.pop("headers", HEADERS)
    found = inspector.compile()(Record("t", 0, 0, fields.pop("key", b"k"), value, headers))
    assert found is not None
    return Inspected(*found)


def test_all_is_in_the_headers_and_the_body_stays_as_it_is() -> None:
    found = inspect(Headers("stream", "n", "kind"))
    assert found == Inspected("a", 3, "Paid", b"\x00\xff")


def test_a_message_without_a_body_or_a_kind() -> None:
    assert inspect(Headers("stream", "n"), None) == Inspected("a", 3, None, None)


def test_the_stream_may_be_the_key_or_joined() -> None:
    assert inspect(Headers(key(), "n")).stream == "k"
    assert inspect(Headers([key(), "stream", "shop"], "n")).stream == "k|a|x%7Cy"


def test_of_headers_of_one_name_the_last_counts() -> None:
    assert inspect(Headers("stream", "n"), headers=[*HEADERS, ("n", b"4")]).sequence == 4


def test_a_header_may_be_a_time() -> None:
    inspector = Headers("stream", "at", sequence_type="timestamp")
    assert inspect(inspector, headers=[*HEADERS, ("at", b"1.5")]).sequence == 1_500_000


@pytest.mark.parametrize(
    ("headers", "words"),
    [
        ((), "no header 'stream'"),
        (HEADERS[:1], "no header 'n'"),
        (HEADERS[:2], "no header 'kind'"),
        ((*HEADERS, ("n", None)), "the sequence is null"),
        ((*HEADERS, ("n", b"x")), "not a number"),
        ((*HEADERS, ("stream", b"\xff")), "the stream is not UTF-8"),
    ],
)
def test_a_header_that_is_not_there_or_says_nothing_is_malformed(headers: Any, words: str) -> None:
    with pytest.raises(Malformed, match=words):
        inspect(Headers("stream", "n", "kind"), headers=headers)


def test_a_json_body_is_decoded_when_a_handler_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    content = inspect(Headers("stream", "n", body="json"), b'{"a": 1, "b": [2]}').content
    assert repr(content) == 'LazyJson(b\'{"a": 1, "b": [2]}\')'
    assert (content["a"], content.get("c"), "b" in content, dict(content)) == (
        1,
        None,
        True,
        {"a": 1, "b": [2]},
    )
    assert content.value is content.value
    assert repr(content) == "LazyJson({'a': 1, 'b': [2]})"


def test_a_body_that_nobody_looks_at_is_never_decoded() -> None:
    content = inspect(Headers("stream", "n", body="json"), b"{").content
    assert content.raw == b"{"
    with pytest.raises(orjson.JSONDecodeError):
        content["a"]


@pytest.mark.parametrize("raw", [b"[1]", b"5", b"null", None])
def test_a_body_that_is_no_object_has_a_value(raw: bytes | None) -> None:
    content = LazyJson(raw)
    assert content.value == (None if raw is None else orjson.loads(raw))
    with pytest.raises(ValueError, match=r"no JSON object.*\.value"):
        content["a"]


def test_a_body_that_is_broken_fails_in_the_handler_alone() -> None:
    topology = Topology("shop")
    source = topology.source("orders", inspector=Headers("stream", "n", body="json"))
    topology.view("one", of=source, handler=lambda event: None)
    topology.view("two", of=source, handler=lambda event, state: state.update(event.content))
    driver = TopologyTestDriver(topology)
    for number, value in ((1, b"{"), (2, b'{"x": 2}')):
        headers = [("stream", b"a"), ("n", b"%d" % number)]
        driver.pipe("orders", value, headers=headers)
    assert (driver.counts("one").failed, driver.counts("one").processed) == (0, 2)
    assert (driver.counts("two").failed, driver.counts("two").processed) == (1, 1)
    assert driver.state("two", "a") == {"x": 2}


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        ({"stream": (), "sequence": "n"}, "stream=()"),
        ({"stream": "", "sequence": "n"}, "header('')"),
        ({"stream": ["a", 5], "sequence": "n"}, "stream=5"),
        ({"stream": "a", "sequence": None}, "sequence=None"),
        ({"stream": "a", "sequence": "n", "kind": 5}, "kind=5"),
        ({"stream": "a", "sequence": "n", "body": "xml"}, "body='xml'"),
        ({"stream": "a", "sequence": "n", "sequence_type": "date"}, "sequence_type='date'"),
    ],
)
def test_mistakes_fail_at_declaration_and_are_named(arguments: Any, names: str) -> None:
    with pytest.raises(DeclarationError) as error:
        Headers(**arguments)
    assert names in str(error.value)


def test_it_reads_like_its_declaration() -> None:
    text = repr(Headers([key(), "tenant"], "n", "kind"))
    assert text == "Headers(stream=RecordKey()+tenant, sequence=n, kind=kind, body=bytes)"


@given(
    value=st.none() | st.binary(max_size=20),
    record_key=st.none() | st.binary(max_size=20),
    headers=headers_of(["stream", "n", "kind"]),
)
def test_garbage_is_an_event_or_malformed(
    value: bytes | None, record_key: bytes | None, headers: Any
) -> None:
    taken(Headers("stream", "n", "kind"), value, record_key, headers)
    taken(Headers((key(), "stream"), "n", body="json"), value, record_key, headers)
