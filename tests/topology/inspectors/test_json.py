"""Inspectors: from field paths or from a function, and nothing but Inspected, None or Malformed."""

import uuid
from typing import Any

import orjson
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from topology import DeclarationError, Inspected, Inspector, Malformed, Message, Record, header, key
from topology.inspectors.inspector import compile_inspector


def record(value: object, **fields: Any) -> Record:
    raw = value if value is None or isinstance(value, bytes) else orjson.dumps(value)
    return Record("orders", 0, 0, fields.pop("key", None), raw, **fields)


def inspect(inspector: Inspector, message: Message) -> Inspected:
    found = compile_inspector(inspector)(message)
    assert found is not None
    return Inspected(*found)


def test_field_paths_find_stream_sequence_and_kind() -> None:
    inspector = Inspector(stream="order.id", sequence="version", kind="type")
    body = {"order": {"id": 7}, "version": "12", "type": "Paid"}
    assert inspect(inspector, record(body)) == Inspected("7", 12, "Paid", body)


def test_without_a_kind_field_there_is_no_kind() -> None:
    found = inspect(Inspector("s", "n"), record({"s": "a", "n": 1}))
    assert found.kind is None


@pytest.mark.parametrize(
    ("kind", "expected"), [("Paid", "Paid"), (5, "5"), (None, None), (True, "True"), ("", "")]
)
def test_a_kind_is_text(kind: object, expected: str | None) -> None:
    found = inspect(Inspector("s", "n", "k"), record({"s": "a", "n": 1, "k": kind}))
    assert found.kind == expected


def test_key_and_headers_give_stream_sequence_and_kind() -> None:
    inspector = Inspector(stream=key(), sequence=header("n"), kind=header("k"))
    message = record({}, key=b"a", headers=(("n", b"3"), ("k", b"Paid\xff")))
    assert inspect(inspector, message) == Inspected("a", 3, "Paid�", {})


def test_a_stream_of_several_fields_mixes_body_key_and_header() -> None:
    inspector = Inspector(stream=[key(), "line", header("shop")], sequence="n")
    guid = uuid.UUID(int=5)
    message = record({"n": 1, "line": 4}, key=guid.urn.upper().encode(), headers=[("shop", b"x|y")])
    found = inspect(inspector, message)
    assert found.stream == f"{guid}|4|x%7Cy"


PARTS = st.text("ab|%", min_size=1, max_size=4)


@given(one=st.tuples(PARTS, PARTS), other=st.tuples(PARTS, PARTS))
def test_a_combination_of_fields_is_injective(one: tuple[str, str], other: tuple[str, str]) -> None:
    inspector = Inspector(stream=("a", "b"), sequence="n")
    streams = []
    for a, b in (one, other):
        found = inspect(inspector, record({"a": a, "b": b, "n": 1}))
        streams.append(found.stream)
    assert (streams[0] == streams[1]) == (one == other)


@pytest.mark.parametrize("raw", [str(uuid.UUID(int=5)).upper(), uuid.UUID(int=5).hex, "a", 1, "1"])
def test_an_id_reads_the_same_whenever_it_comes(raw: object) -> None:
    inspect_one = Inspector("s", "n").compile()
    found = [inspect_one(record({"s": raw, "n": 1})) for _ in range(3)]
    assert found == [inspect(Inspector("s", "n"), record({"s": raw, "n": 1}))] * 3


def test_ids_that_are_equal_in_python_are_not_mixed_up() -> None:
    inspect_one = Inspector("s", "n").compile()
    assert inspect_one(record({"s": 1, "n": 1}))
    for raw in (True, 1.0):
        with pytest.raises(Malformed):
            inspect_one(record({"s": raw, "n": 1}))


def test_a_time_is_read_as_declared() -> None:
    inspector = Inspector("s", "at", sequence_type="timestamp")
    found = inspect(inspector, record({"s": "a", "at": 1_700_000_000}))
    assert found.sequence == 1_700_000_000_000_000


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (None, "the value is null"),
        (b"", "not JSON"),
        (b"{", "not JSON"),
        (b"\xff\xfe", "not JSON"),
        (b'{"s": "\xff", "n": 1}', "not JSON"),
        (b'{"s": "\\ud800", "n": 1}', "not JSON"),
        (b"NaN", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b"[]", "the body is no JSON object"),
        (b'"text"', "the body is no JSON object"),
        (b"null", "the body is no JSON object"),
        (b"{}", "no field 's'"),
        (b'{"s": "a"}', "no field 'n'"),
        (b'{"s": "a", "n": 1}', "no field 'k'"),
        (b'{"s": null, "n": 1, "k": 1}', "the stream is null"),
        (b'{"s": "a", "n": null, "k": 1}', "the sequence is null"),
        (b'{"s": {"id": 1}, "n": 1, "k": 1}', "the stream is a dict"),
        (b'{"s": 123456789012345678901234567890, "n": 1, "k": 1}', "the stream is a float"),
        (b'{"s": "a", "n": 123456789012345678901234567890, "k": 1}', "64 bits"),
        (b'{"s": "a", "n": 18446744073709551615, "k": 1}', "64 bits"),
    ],
    ids=lambda value: repr(value)[:30],
)
def test_what_no_event_can_be_made_of_is_malformed_with_the_reason(
    value: bytes | None, reason: str
) -> None:
    with pytest.raises(Malformed, match=reason) as error:
        inspect(Inspector("s", "n", "k"), record(value))
    assert 0 < len(str(error.value)) < 1000


def test_a_kind_that_is_deeply_nested_is_no_crash() -> None:
    value = b'{"s": "a", "n": 1, "k": ' + b"[" * 1000 + b"]" * 1000 + b"}"
    try:
        found = inspect(Inspector("s", "n", "k"), record(value))
    except Malformed:
        return
    assert found is not None


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.just("a"), inner),
    max_leaves=3,
)


_BODIES = st.fixed_dictionaries({}, optional={"s": _JSON, "n": _JSON, "k": _JSON})


def _written(body: object) -> bytes:
    try:
        return orjson.dumps(body)
    except TypeError:
        return b"{"


@example(b'{"s":"URN:UUID:0f8fad5b-d9cb-469f-a165-70867728950e","n":1,"k":null}')
@given(value=st.none() | st.binary() | _BODIES.map(_written))
def test_arbitrary_bytes_are_inspected_or_malformed(value: bytes | None) -> None:
    for inspector in (Inspector("s", "n", "k"), Inspector(("s.a", "k[0]"), "n", key())):
        try:
            found = inspect(inspector, record(value, key=value))
        except Malformed:
            continue
        assert isinstance(found, Inspected)
        assert found.stream.encode()
        assert -(2**63) <= found.sequence < 2**63


@given(
    key_bytes=st.none() | st.binary(),
    headers=st.lists(st.tuples(st.sampled_from(["n", "k"]), st.none() | st.binary()), max_size=4),
)
def test_arbitrary_keys_and_headers_are_inspected_or_malformed(
    key_bytes: bytes | None, headers: list[tuple[str, bytes]]
) -> None:
    message = record({}, key=key_bytes, headers=headers)
    try:
        found = inspect(Inspector(key(), header("n"), header("k")), message)
    except Malformed:
        return
    assert isinstance(found, Inspected)


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        ({"stream": (), "sequence": "n"}, "stream=()"),
        ({"stream": "a..b", "sequence": "n"}, "'a..b'"),
        ({"stream": ["a", "b["], "sequence": "n"}, "'b['"),
        ({"stream": "s", "sequence": ""}, "''"),
        ({"stream": "s", "sequence": None}, "sequence=None"),
        ({"stream": "s", "sequence": "n", "kind": 5}, "kind=5"),
        ({"stream": None, "sequence": "n"}, "stream=None"),
        ({"stream": "s", "sequence": "n", "sequence_type": "date"}, "sequence_type='date'"),
    ],
)
def test_mistakes_fail_at_declaration_and_are_named(arguments: Any, names: str) -> None:
    with pytest.raises(DeclarationError) as error:
        Inspector(**arguments)
    assert names in str(error.value)


def test_an_inspector_reads_like_its_declaration() -> None:
    inspector = Inspector(stream=("order.id", "line"), sequence="version", kind="type")
    assert repr(inspector) == "Inspector(stream=order.id+line, sequence=version, kind=type)"
