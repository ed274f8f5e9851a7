"""A message that is too large is malformed in Spark as it is in a worker, also in a rebuild."""

from collections.abc import Sequence

import orjson
import pyarrow as pa
import pytest

from tests.topology.spark.shops import topology
from topology.model.event import Damaged, Record
from topology.model.large import MESSAGE_BYTES, too_large
from topology.spark.codec import decode_outcome
from topology.spark.inspecting import OUTCOME, Inspection
from topology.spark.messages import messages_of
from topology.spark.reference import refer

ORDER = orjson.dumps({"id": "a", "n": 1, "kind": "Paid"})
LARGE = ORDER[:-1] + b" " * MESSAGE_BYTES + b"}"
Headers = Sequence[tuple[str, bytes | None]]


def batch(*messages: tuple[bytes | None, bytes | None, Headers | None]) -> pa.RecordBatch:
    """Messages of one partition: (key, value, headers)."""
    columns = {
        "topic": pa.array(["shop.web"] * len(messages)),
        "partition": pa.array([0] * len(messages), pa.int32()),
        "offset": pa.array(range(len(messages)), pa.int64()),
        "timestamp": pa.array([1] * len(messages), pa.int64()),
        "key": pa.array([key for key, _, _ in messages], pa.binary()),
        "value": pa.array([value for _, value, _ in messages], pa.binary()),
        "headers": pa.array(
            [
                None if headers is None else [{"key": k, "value": v} for k, v in headers]
                for _, _, headers in messages
            ],
            pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])),
        ),
    }
    return pa.RecordBatch.from_pydict(columns)


def test_messages_come_as_they_are() -> None:
    found = list(messages_of(batch((b"a", ORDER, None), (None, None, [("h", b"1"), ("i", None)]))))
    assert found == [
        Record("shop.web", 0, 0, b"a", ORDER, (), 1),
        Record("shop.web", 0, 1, None, None, (("h", b"1"), ("i", None)), 1),  # type: ignore[arg-type]
    ]


@pytest.mark.parametrize(
    ("key", "value", "headers"),
    [
        (b"a", LARGE, ()),
        (b"k" * (MESSAGE_BYTES // 6), ORDER, ()),
        (b"a", ORDER, [("h", b"v" * (MESSAGE_BYTES // 6))]),
        (b"a", ORDER, [("h", None)] * (MESSAGE_BYTES // 15)),
    ],
)
def test_one_that_is_too_large_is_damaged_and_its_neighbours_are_not(
    key: bytes, value: bytes, headers: Headers
) -> None:
    first, large, last = messages_of(
        batch((b"a", ORDER, ()), (key, value, headers), (b"a", ORDER, ()))
    )
    assert isinstance(large, Damaged)
    assert large.reason == too_large(large)
    assert (first.__class__, last.__class__) == (Record, Record)


def test_one_that_just_fits_is_whole() -> None:
    value = b"x" * (MESSAGE_BYTES - 6)
    (found,) = messages_of(batch((b"a", value, ())))
    assert found == Record("shop.web", 0, 0, b"a", value, (), 1)


def test_a_query_has_it_in_the_malformed_topic_with_its_place_instead_of_its_value() -> None:
    (rows,) = Inspection(refer(topology))([batch((b"a", LARGE, ()), (b"a", ORDER, ()))])
    packed = rows.column("packed").to_pylist()
    (outcome,) = [decode_outcome(each[1:]) for each in packed if each[:1] == OUTCOME]
    (told,) = [each for each in outcome.records if each.topic == "shop.malformed"]
    assert (told.key, told.value) == (None, None)
    headers = dict(told.headers)
    assert b"the limit is 8323072" in (headers["sequitur-reason"] or b"")
    assert headers["sequitur-origin"] == b"shop.web/0/0/1"
    counts = outcome.counts["<orders"]
    assert (counts["read"], counts["malformed"]) == (2, 1)
