"""Debezium's change events as streams of transactions, contiguous from 1."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.topology.inspectors.changes import MYSQL, POSTGRESQL, change, record
from tests.topology.inspectors.garbage import JSON, spoilt, taken, written
from topology import DebeziumTransactions, Inspected, Malformed, Topology
from topology.testing import TopologyTestDriver


def order(total: int, in_table: int, id: str = "556:24023128") -> dict[str, Any]:
    return {"id": id, "total_order": total, "data_collection_order": in_table}


def inspect(value: Any, *, by_table: bool = False) -> Inspected:
    found = DebeziumTransactions(by_table=by_table).compile()(record(value))
    assert found is not None
    return Inspected(*found)


def test_a_transaction_is_a_stream() -> None:
    envelope = change("u", POSTGRESQL, transaction=order(3, 1))
    assert inspect(envelope) == Inspected("shop|556", 3, "update", envelope)


def test_by_table_the_tables_are_streams_of_their_own() -> None:
    found = inspect(change("u", POSTGRESQL, transaction=order(3, 1)), by_table=True)
    assert (found.stream, found.sequence) == ("shop|556|public|customers", 1)
    found = inspect(change("u", MYSQL, transaction=order(3, 2, "x:1")), by_table=True)
    assert (found.stream, found.sequence) == ("shop|x:1|inventory|customers", 2)


def test_the_lsn_in_a_postgresql_id_is_that_of_the_change_not_of_the_transaction() -> None:
    found = [
        inspect(change("u", POSTGRESQL, transaction=order(n, n, f"571:{53195829 + n}"))).stream
        for n in (1, 2)
    ]
    assert found == ["shop|571", "shop|571"]


@pytest.mark.parametrize(
    "id", ["3E11FA47-71CA-11E1-9E33-C80AA9429562:23", "file=binlog.000002,pos=3680"]
)
def test_ids_in_mysql_stay_whole(id: str) -> None:
    assert inspect(change("u", MYSQL, transaction=order(1, 1, id))).stream == f"shop|{id}"


def test_a_snapshot_belongs_to_no_transaction() -> None:
    assert DebeziumTransactions().compile()(record(change("r", POSTGRESQL))) is None


@pytest.mark.parametrize(
    ("transaction", "words"),
    [
        (None, "provide.transaction.metadata=true"),
        ("556", "no 'transaction'"),
        ({"id": "556:1", "total_order": None}, "the sequence is null"),
        ({"id": None, "total_order": 1}, "the stream is null"),
        ({"id": "556:1", "total_order": "x"}, "not a number"),
    ],
)
def test_broken_changes_are_malformed(transaction: Any, words: str) -> None:
    with pytest.raises(Malformed, match=words):
        inspect(change("c", POSTGRESQL, transaction=transaction))


def test_changes_of_several_tables_are_handled_in_the_order_of_their_transaction() -> None:
    topology = Topology("shop")
    source = topology.source(["shop.a", "shop.b"], name="shop", inspector=DebeziumTransactions())
    seen: list[int] = []
    topology.view("history", of=source, handler=lambda event: seen.append(event.sequence))
    driver = TopologyTestDriver(topology)
    for total, in_table, table in ((3, 2, "b"), (2, 1, "a"), (1, 1, "b")):
        envelope = change("c", POSTGRESQL, table=table, transaction=order(total, in_table))
        driver.pipe(f"shop.{table}", envelope)
    assert seen == [1, 2, 3]


_GOOD = change("c", POSTGRESQL, transaction=order(3, 1))


@given(value=st.none() | st.binary(max_size=30) | JSON.map(written) | spoilt(_GOOD))
def test_garbage_is_an_event_unknown_or_malformed(value: bytes | None) -> None:
    for by_table in (True, False):
        taken(DebeziumTransactions(by_table=by_table), value)
