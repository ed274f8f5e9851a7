"""CloudEvents: both modes of Kafka's binding, the sequence extension, data by its type."""

from base64 import b64encode
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.topology.inspectors.garbage import JSON, headers_of, spoilt, taken, written
from topology import CloudEvents, DeclarationError, Inspected, Malformed, Record, Topology, key
from topology.testing import TopologyTestDriver

EVENT = {
    "specversion": "1.0",
    "id": "a9f3c1b2-0001",
    "source": "/shop/orders",
    "type": "com.example.order.placed",
    "subject": "A-17",
    "time": "2024-04-05T17:31:00Z",
    "datacontenttype": "application/json",
    "sequence": "0000000003",
    "sequencetype": "Integer",
    "partitionkey": "customer-7",
    "data": {"amount": 9.5},
}
STRUCTURED = (("content-type", b"application/cloudevents+json; charset=UTF-8"),)
CONTENT = dict(EVENT)


def event(**changes: Any) -> dict[str, Any]:
    return {name: value for name, value in {**EVENT, **changes}.items() if value is not ...}


def structured(body: Any, headers: Any = STRUCTURED, key: bytes | None = None) -> Record:
    raw = body if isinstance(body, bytes | None) else orjson.dumps(body)
    return Record("orders", 0, 0, key, raw, headers)


def binary(value: bytes | None, content_type: bytes | None = None, **changes: Any) -> Record:
    attributes = event(datacontenttype=..., data=..., **changes)
    headers = [(f"ce_{name}", str(text).encode()) for name, text in attributes.items()]
    if content_type is not None:
        headers.append(("content-type", content_type))
    return Record("orders", 0, 0, None, value, headers)


def inspect(message: Record, inspector: CloudEvents | None = None) -> Inspected:
    found = (inspector or CloudEvents("subject")).compile()(message)
    assert found is not None
    return Inspected(*found)


def reason(message: Record, inspector: CloudEvents | None = None) -> str:
    with pytest.raises(Malformed) as error:
        inspect(message, inspector)
    return str(error.value)


def test_structured_mode() -> None:
    assert inspect(structured(EVENT)) == Inspected("A-17", 3, EVENT["type"], CONTENT)


def test_binary_mode_makes_the_same_event() -> None:
    message = binary(b'{"amount": 9.5}', b"application/json")
    assert inspect(message) == inspect(structured(EVENT))


def test_structured_mode_is_told_by_its_content_type_even_with_the_headers_of_binary_mode() -> None:
    headers = (*binary(None, subject="other").headers, *STRUCTURED)
    assert inspect(structured(EVENT, headers)).stream == "A-17"


def test_structured_mode_without_a_content_type() -> None:
    assert inspect(structured(EVENT, ())).sequence == 3


@pytest.mark.parametrize("name", ["content-type", "Content-Type"])
@pytest.mark.parametrize(
    "media", [b"application/cloudevents+json", b"Application/CloudEvents+JSON;charset=utf-8"]
)
def test_the_case_of_a_content_type_does_not_matter(name: str, media: bytes) -> None:
    assert inspect(structured(EVENT, [(name, media)])).stream == "A-17"


@pytest.mark.parametrize(
    ("stream", "expected"),
    [
        ("subject", "A-17"),
        ("partitionkey", "customer-7"),
        ("source", "/shop/orders"),
        (("source", "subject"), "/shop/orders|A-17"),
        (key(), "record-key"),
        ((key(), "subject"), "record-key|A-17"),
    ],
)
def test_the_stream_is_what_was_chosen(stream: Any, expected: str) -> None:
    found = inspect(structured(EVENT, key=b"record-key"), CloudEvents(stream))
    assert found.stream == expected


def test_an_attribute_that_is_null_is_not_set() -> None:
    found = inspect(structured(event(time=None, sequencetype=None)))
    assert "time" not in found.content
    assert "no attribute 'subject'" in reason(structured(event(subject=None)))


@pytest.mark.parametrize(
    ("changes", "sequence"),
    [
        ({"sequence": "1"}, 1),
        ({"sequence": "0000000042"}, 42),
        ({"sequence": 7}, 7),
        ({"sequence": "2147483647"}, 2**31 - 1),
        ({"sequence": "2147483648", "sequencetype": ...}, 2**31),
        ({"sequence": "1970-01-01T00:00:01Z", "sequencetype": ...}, 1_000_000),
    ],
)
def test_the_sequence_extension(changes: dict[str, Any], sequence: int) -> None:
    assert inspect(structured(event(**changes))).sequence == sequence


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"sequence": ...}, "no attribute 'sequence'"),
        ({"sequence": "x"}, "not a number"),
        ({"sequence": "0"}, "none of 1 to 2147483647"),
        ({"sequence": "-2147483648"}, "wrapped around"),
        ({"sequence": "2147483648"}, "none of 1 to 2147483647"),
        ({"sequence": "2024-01-01T00:00:00Z"}, "not a number"),
        ({"sequencetype": "Ulid"}, "'Ulid' is not known"),
        ({"sequencetype": 5}, "'5' is not known"),
        ({"specversion": "0.3"}, "'0.3'; 1.0 is known"),
        ({"specversion": 1.0}, "specversion"),
        ({"specversion": ...}, "no attribute 'specversion'"),
        ({"id": ...}, "no attribute 'id'"),
        ({"source": ""}, "'source'"),
        ({"type": 5}, "'type'"),
        ({"datacontenttype": "json"}, "'json' is no media type"),
        ({"datacontenttype": 5}, "'5' is no media type"),
        ({"datacontenttype": "application/xml"}, "must be text"),
        ({"data_base64": "AA=="}, "both data and data_base64"),
        ({"data": ..., "data_base64": "?"}, "not Base64"),
        ({"data": ..., "data_base64": 5}, "not Base64"),
        ({"data": ..., "data_base64": "e30"}, "not Base64"),
        ({"data": ..., "data_base64": "ew=="}, "not JSON as its datacontenttype says"),
    ],
    ids=str,
)
def test_what_is_no_valid_cloudevent_is_malformed(changes: dict[str, Any], words: str) -> None:
    assert words in reason(structured(event(**changes)))


def test_a_sequencetype_of_one_s_own_is_read_as_declared() -> None:
    message = structured(event(sequencetype="Revision", sequence="12"))
    assert inspect(message, CloudEvents("subject", sequence_type="number")).sequence == 12


def test_the_time_may_be_the_sequence() -> None:
    inspector = CloudEvents("subject", "time", sequence_type="timestamp")
    assert inspect(structured(EVENT), inspector).sequence == 1_712_338_260_000_000


@pytest.mark.parametrize(
    ("message", "words"),
    [
        (structured(b"{"), "not JSON"),
        (structured(None), "the value is null"),
        (structured([EVENT]), "a CloudEvent is an object"),
        (structured(b"{", ()), "not JSON"),
        (structured(EVENT, [("content-type", b"application/cloudevents+avro")]), "+avro"),
        (structured([], [("content-type", b"application/cloudevents-batch+json")]), "batch"),
        (binary(b"{", b"application/json"), "the data is not JSON"),
        (binary(b"{}", b"json"), "no media type"),
        (
            structured(EVENT, [*binary(None).headers, ("ce_subject", b"\xff")]),
            "'ce_subject' is not",
        ),
        (structured(EVENT, [("ce_specversion", b"\xff")]), "'ce_specversion' is not UTF-8"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_broken_messages_are_malformed(message: Record, words: str) -> None:
    assert words in reason(message)


@pytest.mark.parametrize(
    "message",
    [
        structured({"id": 1}, ()),
        structured(None, ()),
        structured(EVENT, [("content-type", b"application/json")]),
        structured(b"\x00\x01", [("content-type", b"application/avro")]),
    ],
)
def test_what_is_no_cloudevent_is_unknown(message: Record) -> None:
    assert CloudEvents("subject").compile()(message) is None


def data(message: Record, **options: Any) -> Any:
    return inspect(message, CloudEvents("subject", **options)).content.get("data", "none")


XML = "application/xml"


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (structured(event(data="text")), "text"),
        (structured(event(data=None)), None),
        (structured(event(data=...)), "none"),
        (structured(event(datacontenttype=..., data=[1])), [1]),
        (structured(event(datacontenttype="application/vnd.shop+json", data=[1])), [1]),
        (structured(event(datacontenttype=XML, data="<a/>")), "<a/>"),
        (structured(event(datacontenttype=XML, data=None)), None),
        (structured(event(data=..., data_base64=b64encode(b"[1]").decode())), [1]),
        (structured(event(datacontenttype=..., data=..., data_base64="AAE=")), b"\x00\x01"),
        (structured(event(datacontenttype=XML, data=..., data_base64="AAE=")), b"\x00\x01"),
        (binary(b"[1]"), [1]),
        (binary(b"[1]", b"text/json"), [1]),
        (binary(b"[1]", b"application/vnd.shop+json; charset=utf-8"), [1]),
        (binary(b"<a/>", b"application/xml"), b"<a/>"),
        (binary(b"[1]", b"application/jsonp"), b"[1]"),
        (binary(None), "none"),
    ],
)
def test_data_is_decoded_by_its_type(message: Record, expected: Any) -> None:
    assert data(message) == expected


def test_data_without_a_type_is_what_was_declared() -> None:
    assert data(binary(b"[1]"), datacontenttype="application/octet-stream") == b"[1]"


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        ({"stream": ()}, "stream=()"),
        ({"stream": "ce_subject"}, "'ce_subject'"),
        ({"stream": ["subject", 5]}, "stream=5"),
        ({"stream": "data"}, "'data'"),
        ({"stream": "subject", "sequence": ""}, "sequence=''"),
        ({"stream": "subject", "kind": None}, "kind=None"),
        ({"stream": "subject", "sequence_type": "date"}, "sequence_type='date'"),
        ({"stream": "subject", "datacontenttype": "json"}, "datacontenttype='json'"),
    ],
)
def test_mistakes_fail_at_declaration_and_are_named(arguments: Any, names: str) -> None:
    with pytest.raises(DeclarationError) as error:
        CloudEvents(**arguments)
    assert names in str(error.value)


def test_it_reads_like_its_declaration() -> None:
    text = repr(CloudEvents(("source", key())))
    assert text == "CloudEvents(stream=source+RecordKey(), sequence=sequence, kind=type)"


def test_both_modes_of_a_stream_are_put_in_order() -> None:
    topology = Topology("shop")
    source = topology.source("orders", inspector=CloudEvents("subject"))
    seen = []
    topology.view("board", of=source, handler=lambda event: seen.append(event.content["data"]))
    driver = TopologyTestDriver(topology)
    for number in (2, 3, 1):
        if number == 2:
            message = binary(b"2", b"application/json", sequence="2")
        else:
            message = structured(event(sequence=str(number), data=number))
        driver.pipe("orders", message.value, headers=message.headers)
    assert seen == [1, 2, 3]


_NAMES = [f"ce_{name}" for name in EVENT] + ["content-type"]
_HEADERS = headers_of(_NAMES) | st.just(list(STRUCTURED)) | st.just(list(binary(None).headers))


@given(
    value=st.none() | st.binary(max_size=30) | JSON.map(written) | spoilt(EVENT),
    headers=_HEADERS,
    record_key=st.none() | st.binary(max_size=10),
)
def test_garbage_is_an_event_unknown_or_malformed(
    value: bytes | None, headers: Any, record_key: bytes | None
) -> None:
    for inspector in (CloudEvents("subject"), CloudEvents((key(), "source"), "time", "id")):
        taken(inspector, value, record_key, headers)


@given(value=spoilt(EVENT))
def test_garbage_in_structured_mode_keeps_what_is_whole(value: bytes) -> None:
    found = taken(CloudEvents("subject"), value, headers=STRUCTURED)
    assert found is None or found[3]["id"] == orjson.loads(value)["id"]


@pytest.mark.parametrize("attribute", ["specversion", "id", "datacontenttype", "sequencetype"])
def test_an_attribute_that_is_nested_deeper_than_python_can_show_is_malformed(
    attribute: str,
) -> None:
    """To show it raised a RecursionError, at which the worker stopped for good."""
    body = orjson.dumps({**EVENT, "sequence": "1", attribute: "here"})
    deep = body.replace(b'"here"', b"[" * 1000 + b"]" * 1000)
    with pytest.raises(Malformed):
        inspect(structured(deep), CloudEvents("subject"))
