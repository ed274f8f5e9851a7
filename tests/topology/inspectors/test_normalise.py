"""Stream ids and counting numbers: one form, whatever the source calls them."""

import uuid
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, reject
from hypothesis import strategies as st

from topology import DeclarationError, Malformed
from topology.inspectors.normalise import sequence_number, stream_id
from topology.inspectors.stream_ids import StreamIds, checked_stream_ids

GUID = "0f8fad5b-d9cb-469f-a165-70867728950e"
TEXTS = st.text(max_size=30)


@pytest.mark.parametrize(
    "form",
    [
        GUID,
        GUID.upper(),
        "{" + GUID + "}",
        "{" + GUID.upper() + "}",
        "{" + GUID.replace("-", "") + "}",
        "urn:uuid:" + GUID,
        "URN:UUID:" + GUID.upper(),
        "Urn:Uuid:" + GUID.replace("-", ""),
        GUID.encode(),
        uuid.UUID(GUID),
    ],
    ids=str,
)
def test_every_form_of_a_guid_is_one_stream(form: object) -> None:
    assert stream_id(form) == stream_id(form, "guid") == GUID


@given(guid=st.uuids())
def test_any_guid_is_one_stream_in_any_form(guid: uuid.UUID) -> None:
    forms = [str(guid), guid.urn, guid.urn.upper(), "{" + str(guid) + "}", "{" + guid.hex + "}"]
    assert {stream_id(form) for form in forms} == {str(guid)}
    forms += [guid.hex, guid.hex.upper()]
    assert {stream_id(form, "guid") for form in forms} == {str(guid)}


@given(text=st.from_regex(r"\A([0-9a-f]{32}|[0-9A-F]{32}|[0-9]{32})\Z"))
def test_a_hash_or_a_long_number_is_not_rewritten_into_a_guid(text: str) -> None:
    assert stream_id(text) == stream_id(text.encode()) == text
    assert stream_id(int(text, 16) % 10**32) == str(int(text, 16) % 10**32)


@pytest.mark.parametrize("text", [GUID[:-1], GUID + "0", "g" + GUID[1:], "x" * 36, "{" + GUID])
def test_what_only_resembles_a_guid_stays_as_it_is(text: str) -> None:
    assert stream_id(text) == text
    with pytest.raises(Malformed, match="no GUID"):
        stream_id(text, "guid")


@pytest.mark.parametrize("form", [GUID.upper(), "{" + GUID + "}", GUID.replace("-", ""), "007"])
def test_a_source_of_texts_leaves_them_all_as_they_are(form: str) -> None:
    assert stream_id(form, "text") == form


def test_a_source_of_ints_writes_them_all_in_decimal() -> None:
    forms: list[object] = [7, "7", "007", "+7", b"7"]
    assert {stream_id(form, "int") for form in forms} == {"7"}
    for wrong in ("", "x", "7.0", "٣", "1_0", GUID, None, True, 7.0, uuid.UUID(GUID), "9" * 513):
        with pytest.raises(Malformed, match="the stream"):
            stream_id(wrong, "int")


def test_what_is_no_guid_is_malformed_where_guids_are_declared() -> None:
    for wrong in (7, "", "A-17", None, b"\xff"):
        with pytest.raises(Malformed, match="the stream"):
            stream_id(wrong, "guid")


@pytest.mark.parametrize("types", ["uuid", (), ("text", "int", "guid"), None, 7, ("text", 1)])
def test_a_type_of_ids_that_there_is_not_is_refused_by_name(types: Any) -> None:
    with pytest.raises(DeclarationError, match="Inspector\\(stream_type="):
        checked_stream_ids("Inspector", types, 2)


@pytest.mark.parametrize(
    ("value", "stream"),
    [
        ("N123", "N123"),
        (" N123 ", " N123 "),
        ("n123", "n123"),
        (0, "0"),
        (-5, "-5"),
        (2**63, str(2**63)),
        (2**64 - 1, str(2**64 - 1)),
        ("007", "007"),
        ("Zürich ✈", "Zürich ✈"),
        ("Zürich".encode(), "Zürich"),
        ("x" * 512, "x" * 512),
    ],
)
def test_texts_and_ints_are_kept(value: object, stream: str) -> None:
    assert stream_id(value) == stream


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (None, "null"),
        ("", "empty"),
        (b"", "empty"),
        (True, "bool"),
        (2.0, "float"),
        ({}, "dict"),
        ([1], "list"),
        (b"\xff\xfe", "UTF-8"),
        ("\ud800", "Unicode"),
        ("x" * 513, "513"),
        (10**600, "601"),
        (10**6000, "the stream"),
    ],
    ids=lambda value: repr(value)[:20] if not isinstance(value, int) else "int",
)
def test_what_cannot_name_a_stream_is_malformed_with_the_reason(value: object, reason: str) -> None:
    with pytest.raises(Malformed, match=reason) as error:
        stream_id(value)
    assert "the stream" in str(error.value)


@given(one=st.lists(TEXTS, min_size=1, max_size=4), other=st.lists(TEXTS, min_size=1, max_size=4))
def test_different_combinations_of_fields_are_different_streams(
    one: list[str], other: list[str]
) -> None:
    one, other = [text or "-" for text in one], [text or "-" for text in other]
    try:
        normal = [stream_id(text) for text in one], [stream_id(text) for text in other]
    except Malformed:
        reject()
    same = StreamIds().joined(one) == StreamIds().joined(other)
    assert same == (normal[0] == normal[1])


@pytest.mark.parametrize("letter", ["\u0131", "\u0130"])
def test_what_looks_like_a_guid_in_another_alphabet_is_a_text(letter: str) -> None:
    """It was taken for one, which no library then could read: the worker stopped at it for good."""
    text = f"urn:uu{letter}d:6f9619ff-8b86-d011-b42d-00c04fc964ff"
    assert stream_id(text) == text
    with pytest.raises(Malformed, match="no GUID"):
        stream_id(text, "guid")


def test_a_stream_without_a_place_among_rows_is_malformed() -> None:
    for text in ("a\0b", b"\0", "\0"):
        with pytest.raises(Malformed, match="NUL"):
            stream_id(text)


@given(fields=st.lists(st.sampled_from(["a", "b", "|", "%", "%7C", "%25", "a|b"]), min_size=2))
def test_separators_inside_fields_do_not_move_the_borders(fields: list[str]) -> None:
    found = StreamIds().joined(fields).split("|")
    assert [part.replace("%7C", "|").replace("%25", "%") for part in found] == fields


@given(number=st.integers(-(2**63), 2**63 - 1))
def test_a_number_orders_as_int_text_or_bytes(number: int) -> None:
    forms = [number, str(number), f" {number} ", str(number).encode(), f"{number:+d}"]
    assert {sequence_number(form) for form in forms} == {number}


@pytest.mark.parametrize("value", [3.0, "003", "+3", b"3"])
def test_other_ways_to_write_three(value: object) -> None:
    assert sequence_number(value) == 3
    assert sequence_number(value, "number") == 3


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (None, "null"),
        (True, "true"),
        (False, "false"),
        (2**63, "64 bits"),
        (-(2**63) - 1, "64 bits"),
        (str(2**63), "64 bits"),
        ("9" * 30, "not a number"),
        (1e300, "64 bits"),
        (2.5, "timestamp"),
        (float("nan"), "the sequence"),
        (float("inf"), "the sequence"),
        ("", "not a number"),
        ("abc", "not a number"),
        ("1e3", "not a number"),
        ("1e-5", "not an ISO 8601 time"),
        ("12e-3", "not an ISO 8601 time"),
        ("٣", "not a number"),
        ("1_000", "not a number"),
        ("0x10", "not a number"),
        (b"\xff", "not a number"),
        ([], "list"),
        ({}, "dict"),
        (10**6000, "64 bits"),
    ],
    ids=lambda value: repr(value)[:20] if not isinstance(value, int) else "int",
)
def test_what_does_not_count_is_malformed_with_the_reason(value: object, reason: str) -> None:
    with pytest.raises(Malformed, match=reason) as error:
        sequence_number(value)
    assert "the sequence" in str(error.value)
    assert len(str(error.value)) < 1000


TYPES = st.sampled_from(["auto", "text", "int", "guid"])


@given(texts=st.lists(st.one_of(TEXTS, st.uuids().map(str)), min_size=1), kind=TYPES)
def test_an_id_that_a_person_gives_reads_as_its_events_have_it(texts: list[Any], kind: Any) -> None:
    several = len(texts) > 1
    ids = StreamIds((kind,), len(texts))
    try:
        known = ids.joined(texts) if several else stream_id(texts[0], kind)
    except Malformed:
        reject()
    assert ids.read(known) == known
    if not several:
        assert ids.read(texts[0]) == known


ANYTHING: st.SearchStrategy[Any] = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    TEXTS,
    st.binary(max_size=40),
    st.uuids(),
    st.dates(),
    st.lists(st.integers(), max_size=2),
    st.from_regex(r"(?i)\A(urn:uuid:)?\{?[0-9a-f-]{30,40}\}?\Z"),
    st.from_regex(r"\A[0-9T:.Z+-]{1,30}\Z"),
)


@given(value=ANYTHING, kind=st.sampled_from(["auto", "number", "timestamp"]))
def test_anything_at_all_is_normalised_or_malformed(value: Any, kind: Any) -> None:
    for of in ("auto", "text", "int", "guid"):
        with suppress(Malformed):
            found = stream_id(value, of)
            assert 0 < len(found) <= 512
            assert found.encode()
            assert stream_id(found, of) == found
    with suppress(Malformed):
        assert -(2**63) <= sequence_number(value, kind) < 2**63
