"""Introspection: keys come out as they are in the message, and no bytes raise but Malformed."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.examples import some
from tests.topology.routing.messages import by_length, message
from topology import DeclarationError, Malformed
from topology.routing import CsvKeys, FixKeys, FunctionKeys, JsonKeys, KeyModule, XmlKeys

JSON = JsonKeys({"id": "order.id", "sku": "lines[1].sku", "tags": "tags", "n": "n"})
XML = XmlKeys({"id": "order/@id", "sku": "order/line/sku"}, every=["sku"])
CSV = CsvKeys({"origin": "origin", "third": 3})
FIX = FixKeys({"symbol": 55, "party": 448}, every="party")


def keys(module: KeyModule, value: Any) -> dict[str, Any]:
    return module.compile()(message(value), {})


def refused(module: KeyModule, value: Any) -> str:
    with pytest.raises(Malformed) as caught:
        keys(module, value)
    return str(caught.value)


def test_json_keys_are_found_by_paths_and_a_missing_one_is_no_key() -> None:
    body = {"order": {"id": 7}, "lines": [{}, {"sku": "a"}], "tags": ["x", None, "y"], "n": None}
    assert keys(JSON, body) == {"id": 7, "sku": "a", "tags": ["x", "y"]}
    assert keys(JSON, {"order": "text", "lines": ["a"]}) == {}
    assert keys(JSON, {"order": [1], "lines": {"1": {"sku": 1}}}) == {}


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b"{", "not JSON"),
        (b"[1]", "no object"),
        (None, "null"),
        (b"[" * 100_000, "not JSON"),
        ({"n": {"a": 1}}, "'n' is an object"),
        ({"n": "x" * 5000}, "'n' has 5000 characters; the limit is 4096"),
        ({"n": ["x"] * 1001}, "'n' has 1001 values"),
        ({"n": [["x"]]}, "'n' is a list of lists"),
        (b"{%s}" % (b" " * (9 << 20)), "the limit is"),
    ],
)
def test_malformed_json_is_refused_with_the_reason(value: Any, reason: str) -> None:
    assert reason in refused(JSON, value)


def test_several_modules_decode_a_body_once(monkeypatch: pytest.MonkeyPatch) -> None:
    memo: dict[str, Any] = {}
    found = message({"n": 1, "order": {"id": 2}})
    JSON.compile()(found, memo)
    found.value = b"not JSON any more"
    assert JsonKeys({"m": "n"}).compile()(found, memo) == {"m": 1}


def test_xml_keys_are_found_by_paths_without_prefixes() -> None:
    text = b'<a:order xmlns:a="urn:a" a:id="7"><line><sku> x </sku></line><line><sku>y&lt;</sku>'
    assert keys(XML, text + b"</line></a:order>") == {"id": "7", "sku": ["x", "y<"]}
    assert keys(XML, b"<other id='1'><order id='2'/></other>") == {}
    assert keys(XML, b'<order id="5" xmlns:id="urn:x"/>') == {"id": "5"}
    assert keys(XML, b'<order id="5" x:id="7" xmlns:x="u"/>') == {"id": "5"}, "its own goes first"


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b'<!DOCTYPE x [<!ENTITY a "b"><!ENTITY c "&a;&a;">]><x>&c;</x>', "document type"),
        (b'<!DOCTYPE x SYSTEM "file:///etc/passwd"><x/>', "document type"),
        (b"<x>" * 200, "deeper than 100"),
        (b"<%s><%s>" % (b"x" * 3000, b"y" * 3000), "path of more than 4096"),
        (b"<x>", "not XML"),
        (b"", "not XML"),
        (b'<?xml version="1.0" encoding="no-such"?><x/>', "not XML"),
        (b"<order>" + b"<line><sku>a</sku></line>" * 2000 + b"</order>", "1001 values"),
        (b"<order id='%s'/>" % (b"x" * 5000), "5000 characters"),
    ],
)
def test_harmful_and_malformed_xml_is_refused_with_the_reason(value: bytes, reason: str) -> None:
    assert reason in refused(XML, value)


def test_csv_keys_are_found_by_name_and_number() -> None:
    assert keys(CSV, b'day,origin,seats\r\n1,"J,FK",186\r\n2,LGA,50') == {
        "origin": "J,FK",
        "third": "186",
    }
    assert keys(CSV, b"\xef\xbb\xbforigin,day\r\nJFK,1") == {"origin": "JFK"}  # a spreadsheet's
    assert keys(CSV, b"day,origin\n1,\n") == {}
    assert keys(CSV, b"") == {}
    every = CsvKeys({"o": "origin"}, columns=["day", "origin"], delimiter=";", every=["o"])
    assert keys(every, b"1;JFK\n2;LGA\n\n3;\n") == {"o": ["JFK", "LGA"]}


@pytest.mark.parametrize(
    ("value", "reason"),
    [(b"origin\n\xff", "not utf-8"), (b'origin\n"x', "not CSV"), (b'origin\n"x"y', "not CSV")],
)
def test_malformed_csv_is_refused_with_the_reason(value: bytes, reason: str) -> None:
    assert reason in refused(CSV, value)
    rows = b"origin\n" + b"JFK\n" * 1001
    assert "1001 values" in refused(CsvKeys({"o": "origin"}, every=["o"]), rows)


def test_csv_keys_of_all_rows_are_those_behind_the_thousandth_too() -> None:
    every = CsvKeys({"o": "origin", "day": "day"}, every=["o"])
    empty = b"day,origin\n" + b"1,\n" * 5000
    assert keys(every, empty + b"2,JFK\n") == {"o": ["JFK"], "day": "1"}
    assert "not CSV" in refused(every, empty + b'"')
    assert "1001 values" in refused(every, empty + b"2,JFK\n" * 1001)


def test_csv_keys_of_the_first_row_stay_so_where_others_take_those_of_all_rows() -> None:
    columns, text = {"line": "line", "origin": "origin"}, b"line,origin\n1,\n2,JFK\n"
    assert keys(CsvKeys(columns), text) == {"line": "1"}
    assert keys(CsvKeys(columns, every=["line"]), text) == {"line": ["1", "2"]}


def fix(*fields: str) -> bytes:
    return "".join(f"{each}\x01" for each in fields).encode()


def test_fix_keys_take_the_first_or_all_of_a_repeating_group() -> None:
    text = fix("8=FIX.4.4", "35=D", "55=IBM", "453=2", "448=A", "448=B", "10=000")
    assert keys(FIX, text) == {"symbol": "IBM", "party": ["A", "B"]}
    assert keys(FixKeys({"party": 448}, separator=b"|"), b"448=A|448=B|") == {"party": "A"}


def test_no_tag_is_found_inside_a_fix_data_field() -> None:
    assert keys(FIX, fix("35=D", "95=10", "96=x\x0155=EVIL\x01", "55=IBM")) == {"symbol": "IBM"}
    assert "not as long as" in refused(FIX, fix("95=3", "96=x\x0155=EVIL", "55=IBM"))


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b"hello", "no tag=value at byte 0"),
        (b"35=D\x01=x\x01", "at byte 5"),
        (b"35=D\x0155=IBM", "55 does not end"),
        (b"055=IBM\x01", "no tag=value"),
        (b"95=abc\x01", "95 is no length"),
        ("٣=x\x01".encode(), "no tag=value"),
    ],
)
def test_malformed_fix_is_refused_with_the_reason(value: bytes, reason: str) -> None:
    assert reason in refused(FIX, value)


def test_a_function_is_loaded_by_name_and_its_failure_is_the_message_s() -> None:
    assert keys(FunctionKeys(f"{by_length.__module__}:by_length"), b"abc") == {"length": 3}

    def broken(_: Any) -> dict[str, Any]:
        raise KeyError("gone\x1b[31m")

    assert "module failed: KeyError" in refused(FunctionKeys(broken), b"")
    assert "\x1b" not in refused(FunctionKeys(broken), b"")
    assert "more than 64 bits" in refused(FunctionKeys(lambda _: {"a": 2**64}), b"")
    assert "unpaired surrogates" in refused(FunctionKeys(lambda _: {"a": "\ud800"}), b"")
    assert "of type set" in refused(FunctionKeys(lambda _: {"a": {1}}), b"")
    with pytest.raises(DeclarationError, match="no 'by_size'"):
        FunctionKeys(f"{by_length.__module__}:by_size")


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: JsonKeys({}), "at least one key"),
        (lambda: JsonKeys({"a": "b..c"}), "field path"),
        (lambda: XmlKeys({"a": "a//b"}), "no path"),
        (lambda: XmlKeys({"price": "p"}, every=["prices"]), "did you mean 'price'"),
        (lambda: CsvKeys({"a": 0}), "count from 1"),
        (lambda: CsvKeys({"a": "orgin"}, columns=["origin"]), "did you mean 'origin'"),
        (lambda: CsvKeys({"a": 1}, delimiter="\n"), "one character"),
        (lambda: FixKeys({"a": 0}), "no tag"),
        (lambda: FixKeys({"a": 1}, separator=b"=="), "one byte"),
    ],
)
def test_a_wrong_module_is_refused(make: Callable[[], object], reason: str) -> None:
    with pytest.raises(DeclarationError, match=reason):
        make()


PIECES = st.sampled_from(
    [b"<order", b" id='1'>", b"</order>", b"<!DOCTYPE x>", b"&a;", b"{", b'"order":', b"}", b"[",
     b'"n":1', b",", b'"', b"\n", b"55=", b"95=4\x01", b"96=", b"\x01", b"448=", b"\x00", b"\xff"]
)  # fmt: skip


@settings(max_examples=some(200), deadline=None)
@given(st.lists(st.one_of(st.binary(max_size=20), PIECES), max_size=20).map(b"".join))
def test_no_bytes_raise_anything_but_malformed(value: bytes) -> None:
    for module in (JSON, XML, CSV, FIX):
        try:
            found = keys(module, value)
        except Malformed as error:
            assert str(error).isprintable()  # noqa: PT017
        else:
            assert found.keys() <= set(module.names or ())
