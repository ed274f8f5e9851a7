"""Debezium's change events as streams of rows: key, kind, order, and what is no change of a row."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.topology.inspectors.changes import (
    COLUMNS,
    MARIADB,
    MYSQL,
    POSTGRESQL,
    SQLSERVER,
    change,
    record,
    with_schema,
)
from tests.topology.inspectors.garbage import JSON, headers_of, spoilt, taken, written
from topology import (
    CloudEvents,
    Debezium,
    DeclarationError,
    Inspected,
    Malformed,
    Record,
    Topology,
    first_of,
    header,
    monotonic,
)
from topology.testing import TopologyTestDriver

SOURCES = [POSTGRESQL, MYSQL, MARIADB]


def inspect(message: Record, inspector: Debezium | None = None) -> Inspected:
    found = (inspector or Debezium()).compile()(message)
    assert found is not None
    return Inspected(*found)


def reason(message: Record, inspector: Debezium | None = None) -> str:
    with pytest.raises(Malformed) as error:
        inspect(message, inspector)
    return str(error.value)


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source["connector"])
@pytest.mark.parametrize(
    ("op", "kind"), [("c", "create"), ("u", "update"), ("d", "delete"), ("r", "read")]
)
def test_an_op_is_the_kind(source: dict[str, Any], op: str, kind: str) -> None:
    envelope = change(op, source)
    found = inspect(record(envelope))
    assert (found.stream, found.kind, found.content) == ("1004", kind, envelope)


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source["connector"])
def test_key_and_envelope_read_the_same_with_their_schema(source: dict[str, Any]) -> None:
    envelope = change("u", source)
    plain = inspect(record(envelope))
    assert inspect(record(with_schema(envelope), with_schema({"id": 1004}))) == plain


@pytest.mark.parametrize(
    ("key", "stream"),
    [
        ({"id": 1004}, "1004"),
        ({"tenant": "a|b", "id": 7}, "a%7Cb|7"),
        ({"id": "6F9619FF-8B86-D011-B42D-00C04FC964FF"}, "6f9619ff-8b86-d011-b42d-00c04fc964ff"),
        (b"1004", "1004"),
        (b'"A-17"', "A-17"),
        (b"A-17", "A-17"),
        (b"007", "007"),
        (b"1.50", "1.50"),
        (b"Struct{id=1004}", "Struct{id=1004}"),
    ],
)
def test_the_stream_is_the_record_s_key(key: Any, stream: str) -> None:
    assert inspect(record(change("c", POSTGRESQL), key)).stream == stream


@pytest.mark.parametrize("op", ["c", "d"])
def test_the_stream_may_be_columns_of_the_row(op: str) -> None:
    message = record(change(op, POSTGRESQL), None)
    assert inspect(message, Debezium("email")).stream == COLUMNS["email"]
    assert inspect(message, Debezium(("id", "email"))).stream == f"1004|{COLUMNS['email']}"


def test_a_position_in_postgresql_is_the_lsn() -> None:
    assert inspect(record(change("c", POSTGRESQL))).sequence == 24023128
    assert inspect(record(change("c", POSTGRESQL, lsn="24023128"))).sequence == 24023128


def test_positions_in_mysql_grow_with_file_byte_and_row() -> None:
    places = [
        ("mysql-bin.000003", 484, 0),
        ("mysql-bin.000003", 484, 1),
        ("mysql-bin.000003", 484, 4095),
        ("mysql-bin.000003", 485, 0),
        ("mysql-bin.000003", 2**32 - 1, 4095),
        ("mysql-bin.000004", 4, None),
        ("mysql-bin.000010", 4, 0),
        ("mysql-bin.524287", 2**32 - 1, 4095),
    ]
    found = [
        inspect(record(change("u", MYSQL, file=file, pos=pos, row=row))).sequence
        for file, pos, row in places
    ]
    assert found == sorted(set(found))
    assert found[-1] == 2**63 - 1


@given(
    one=st.tuples(st.integers(0, 2**19 - 1), st.integers(0, 2**32 - 1), st.integers(0, 4095)),
    other=st.tuples(st.integers(0, 2**19 - 1), st.integers(0, 2**32 - 1), st.integers(0, 4095)),
)
def test_any_two_positions_in_mysql_compare_as_their_parts(
    one: tuple[int, int, int], other: tuple[int, int, int]
) -> None:
    first, second = (
        inspect(record(change("u", MYSQL, file=f"bin.{file:06}", pos=pos, row=row))).sequence
        for file, pos, row in (one, other)
    )
    assert (first < second) == (one < other)
    assert (first == second) == (one == other)


@pytest.mark.parametrize("op", ["c", "r", "u"])
def test_a_version_is_a_column_of_the_row(op: str) -> None:
    assert inspect(record(change(op, SQLSERVER)), Debezium(version="version")).sequence == 5


def test_the_deletion_comes_after_the_last_version() -> None:
    assert inspect(record(change("d", SQLSERVER)), Debezium(version="version")).sequence == 6
    last = change("d", SQLSERVER, before={"version": 2**63 - 1})
    assert "64 bits" in reason(record(last), Debezium(version="version"))


def test_the_sequence_may_be_any_field_of_the_envelope() -> None:
    message = record(change("u", POSTGRESQL))
    assert inspect(message, Debezium(sequence="source.txId")).sequence == 556
    times = Debezium(sequence="source.ts_ms", sequence_type="timestamp")
    assert inspect(message, times).sequence == 1559033904863000
    message.headers = [("n", b"7")]
    assert inspect(message, Debezium(sequence=header("n"))).sequence == 7


@pytest.mark.parametrize(
    "value",
    [
        None,
        with_schema(None),
        {"status": "BEGIN", "id": "571:53195829", "event_count": None},
        {"ts_ms": 1700000000000},
        {"source": MYSQL, "ddl": "CREATE TABLE t (id INT)", "tableChanges": []},
        change("t", POSTGRESQL),
        change("m", POSTGRESQL),
        {"op": ["c"]},
        {},
    ],
    ids=str,
)
def test_what_is_no_change_of_a_row_is_unknown(value: Any) -> None:
    assert Debezium().compile()(record(value)) is None


@pytest.mark.parametrize(
    ("message", "words"),
    [
        (record(b"\0\0\0\0\1"), "not JSON"),
        (record([1]), "a Debezium change event is an object"),
        (record({"op": "c"}), "no 'source'"),
        (record(change("c", POSTGRESQL), None), "Debezium(stream=…)"),
        (record(change("c", POSTGRESQL), {}), "no columns"),
        (record(change("c", POSTGRESQL), with_schema({})), "no columns"),
        (record(change("c", POSTGRESQL), {"id": None}), "the stream is null"),
        (record(change("c", POSTGRESQL), {"id": [1]}), "the stream is a list"),
        (record(change("c", POSTGRESQL, lsn=None)), "no 'source.lsn'"),
        (record(change("c", POSTGRESQL, lsn="x")), "not a number"),
        (record(change("c", MYSQL, file=None)), "no 'source.file'"),
        (record(change("c", MYSQL, file="mysql-bin")), "no number at its end"),
        (record(change("c", MYSQL, file="mysql-bin.524288")), "file 524288 does not fit"),
        (record(change("c", MYSQL, pos=2**32)), "pos 4294967296 does not fit"),
        (record(change("c", MYSQL, pos=-1)), "pos -1 does not fit"),
        (record(change("c", MYSQL, row=4096)), "row 4096 does not fit into 12 bits"),
        (record(change("c", SQLSERVER)), "'sqlserver' names no position"),
        (record(change("c", {"connector": None})), "Debezium(version=…)"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_broken_changes_are_malformed(message: Record, words: str) -> None:
    assert words in reason(message)


def test_a_column_that_is_not_there_is_named_with_the_remedy() -> None:
    text = reason(record(change("d", POSTGRESQL, before={"id": 1})), Debezium("email"))
    assert "no column 'email' in 'before'" in text
    assert "REPLICA IDENTITY FULL" in text
    text = reason(record(change("c", POSTGRESQL, after={"id": 1})), Debezium(version="version"))
    assert "no column 'version' in 'after'" in text


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        ({"stream": ()}, "stream=()"),
        ({"stream": ""}, "stream=''"),
        ({"stream": ["id", 5]}, "5"),
        ({"version": ""}, "version=''"),
        ({"version": 5}, "version=5"),
        ({"version": "v", "sequence": "source.lsn"}, "give one of them"),
        ({"sequence": "source..lsn"}, "'source..lsn'"),
        ({"sequence": "source.ts_ms", "sequence_type": "date"}, "sequence_type='date'"),
    ],
)
def test_mistakes_fail_at_declaration_and_are_named(arguments: Any, names: str) -> None:
    with pytest.raises(DeclarationError) as error:
        Debezium(**arguments)
    assert names in str(error.value)


def test_it_reads_like_its_declaration() -> None:
    assert repr(Debezium()) == "Debezium(stream=key, sequence=position)"
    assert repr(Debezium(("a", "b"), version="v")) == "Debezium(stream=a+b, sequence=v)"


@pytest.mark.parametrize("inspector", [Debezium(), first_of(CloudEvents("subject"), Debezium())])
def test_positions_that_are_declared_to_count_are_refused(inspector: Any) -> None:
    topology = Topology("shop")
    with pytest.raises(DeclarationError, match=r"which have holes; use sequence=monotonic"):
        topology.source("customers", inspector=inspector)
    topology.source("customers", inspector=inspector, sequence=monotonic(settle=1))
    counted = Topology("counted")
    counted.source("customers", inspector=Debezium(version="version"))
    with pytest.raises(DeclarationError, match="would wait for ever at the first hole"):
        counted.with_inspectors({"customers": inspector})


def test_versions_of_a_row_are_put_in_order_and_its_tombstone_passes_by() -> None:
    topology = Topology("shop")
    source = topology.source("shop.public.customers", inspector=Debezium(version="version"))
    seen: list[str | None] = []
    topology.view("customers", of=source, handler=lambda event: seen.append(event.kind))
    driver = TopologyTestDriver(topology)
    for op, version in (("u", 3), ("d", 3), ("c", 1), ("u", 2)):
        row = {"id": 1004, "version": version}
        side = {"before": row, "after": None} if op == "d" else {"before": None, "after": row}
        message = record(change(op, POSTGRESQL, **side))
        driver.pipe("shop.public.customers", message.value, key=message.key)
    driver.pipe("shop.public.customers", None, key=record(None).key)
    assert seen == ["create", "update", "update", "delete"]
    assert driver.read(topology.malformed_topic) == []


INSPECTORS = (
    Debezium(),
    Debezium("email"),
    Debezium(("id", "email"), version="version"),
    Debezium(sequence="source.ts_ms", sequence_type="timestamp"),
    Debezium(sequence=header("n")),
)
_GOOD = st.sampled_from([change(op, source) for op in "crud" for source in [*SOURCES, SQLSERVER]])
_VALUES = st.one_of(
    st.none(),
    st.binary(max_size=30),
    JSON.map(written),
    _GOOD.flatmap(spoilt),
    _GOOD.map(with_schema).flatmap(spoilt),
)


@given(
    value=_VALUES,
    key=st.none() | st.binary(max_size=20) | JSON.map(written),
    headers=headers_of(["n"]),
)
def test_garbage_is_an_event_unknown_or_malformed(
    value: bytes | None, key: bytes | None, headers: Any
) -> None:
    for inspector in INSPECTORS:
        taken(inspector, value, key, headers)


@pytest.mark.parametrize("field", ["connector", "file"])
def test_what_is_nested_deeper_than_python_can_show_is_malformed(field: str) -> None:
    message = record(change("u", {**MYSQL, field: "here"}))
    assert message.value is not None
    message.value = message.value.replace(b'"here"', b"[" * 1000 + b"]" * 1000)
    assert "names no position" in reason(message) or "binlog file" in reason(message)
