"""A stream's id: as its producer writes it, unless that is unmistakably one of several forms."""

import uuid
from typing import Any

import orjson
import pytest

from topology import (
    CloudEvents,
    Debezium,
    DebeziumTransactions,
    Event,
    Headers,
    Inspector,
    Record,
    Topology,
    TopologyTestDriver,
    Upsert,
    first_of,
    header,
    key,
    monotonic,
    park,
)
from topology.declaration.lanes import joined_lane
from topology.engine.commands.execute import Command
from topology.inspectors.inspector import AnyInspector
from topology.inspectors.stream_ids import StreamIds
from topology.model.errors import Malformed
from topology.model.partition_table import STREAM_BYTES
from topology.spark.inspecting import _stream_of

GUID = uuid.UUID("0f8fad5b-d9cb-469f-a165-70867728950e")
HASH = "D41D8CD98F00B204E9800998ECF8427E"


def test_rows_keyed_by_the_stream_have_the_id_that_the_message_had() -> None:
    topology = Topology("shop")
    orders = topology.source("orders", inspector=Inspector(stream="id", sequence="seq"))

    @topology.view("order", of=orders)
    def order(event: Event) -> Any:
        return [Upsert("orders", key={"id": event.stream}, values={"n": event.sequence})]

    driver = TopologyTestDriver(topology)
    for text in (HASH, HASH.lower(), "12345678901234567890123456789012", "N-17", "n-17"):
        driver.pipe("orders", {"id": text, "seq": 1})
        assert (text,) in driver.table("orders")
        assert driver.last("order", text) == 1


def parked(stream_type: Any, stream: str) -> TopologyTestDriver:
    """A driver whose view has event 1 handled, 2 parked and 3 waiting behind it."""
    topology = Topology("shop")
    inspector = Inspector(stream="id", sequence="seq", stream_type=stream_type)
    orders = topology.source("orders", inspector=inspector)

    @topology.view("order", of=orders, error=park())
    def order(event: Event, state: dict[str, int]) -> Any:
        state["last"] = event.sequence
        if event.sequence == 2:
            raise ValueError("no")

    driver = TopologyTestDriver(topology)
    for sequence in (1, 2, 3, 9):
        driver.pipe("orders", {"id": stream, "seq": sequence})
    return driver


@pytest.mark.parametrize(
    ("stream_type", "came", "asked"),
    [
        ("auto", str(GUID), [GUID.urn, str(GUID).upper(), "{" + GUID.hex + "}"]),
        ("auto", HASH, []),
        ("guid", GUID.hex, [GUID.hex.upper(), str(GUID), GUID.urn]),
        ("int", "7", ["007", "+7"]),
        ("text", str(GUID).upper(), []),
    ],
)
def test_whatever_looks_a_stream_up_reads_its_id_as_the_source_does(
    stream_type: Any, came: str, asked: list[str]
) -> None:
    for name in (came, *asked):
        driver = parked(stream_type, came)
        assert driver.last("order", name) == 1
        assert driver.state("order", name) == {"last": 1}
        assert driver.waiting("order", name) == [2, 3, 9]
        assert driver.buffer("order", name)
        assert driver.command("redrive", "order", name, dry_run=True).done
        assert driver.command("unpark", "order", name).done
        assert driver.last("order", name) == 3
        assert driver.command("skip", "order", name, 4).done
        assert driver.command("drop", "order", name, force=True).done
        assert driver.last("order", name) == 0


def test_a_text_of_another_case_is_another_stream() -> None:
    driver = parked("auto", HASH)
    assert driver.last("order", HASH.lower()) == 0
    assert not driver.command("unpark", "order", HASH.lower()).done


EVENT = {"specversion": "1.0", "id": "1", "source": "s", "type": "t", "sequence": "1"}
CHANGE = {"op": "c", "before": None, "source": {"connector": "postgresql", "lsn": 1}}


@pytest.mark.parametrize(
    ("inspector", "message"),
    [
        (
            Inspector(stream="id", sequence="n", stream_type="guid"),
            Record("t", 0, 0, None, orjson.dumps({"id": GUID.hex, "n": 1})),
        ),
        (
            Headers(stream=key(), sequence="n", stream_type="guid"),
            Record("t", 0, 0, GUID.hex.encode(), b"", [("n", b"1")]),
        ),
        (
            CloudEvents("subject", stream_type="guid"),
            Record("t", 0, 0, None, orjson.dumps(EVENT | {"subject": GUID.hex})),
        ),
        (
            Debezium("id", stream_type="guid"),
            Record("t", 0, 0, None, orjson.dumps(CHANGE | {"after": {"id": GUID.hex}})),
        ),
        (
            first_of(Inspector(stream=header("id"), sequence="n", stream_type="guid")),
            Record("t", 0, 0, None, b'{"n": 1}', [("id", GUID.hex.encode())]),
        ),
    ],
    ids=str,
)
def test_each_inspector_can_be_told_that_its_ids_are_guids(
    inspector: AnyInspector, message: Record
) -> None:
    topology = Topology("shop")
    source = topology.source("t", inspector=inspector, sequence=monotonic(settle=1))
    found = source.inspect(message)
    assert found is not None
    assert found[0] == source.stream_id(GUID.hex.upper()) == str(GUID)


def test_an_id_of_several_fields_has_a_type_for_each() -> None:
    topology = Topology("shop")
    inspector = Inspector(stream=("tenant", "id"), sequence="n", stream_type=("text", "guid"))
    source = topology.source("t", inspector=inspector)
    body = {"tenant": f"A|{HASH}", "id": GUID.hex, "n": 1}
    found = source.inspect(Record("t", 0, 0, None, orjson.dumps(body)))
    assert found is not None
    assert found[0] == f"A%7C{HASH}|{GUID}"
    assert source.stream_id(f"A%7C{HASH}|{GUID.hex}") == found[0]
    assert source.stream_id("A") == "A"


def test_a_source_without_a_declared_inspector_reads_ids_as_texts_or_guids() -> None:
    topology = Topology("shop")
    mine = topology.source("t", inspector=lambda message: (GUID.urn, 1, None, None))
    assert mine.stream_id(GUID.urn) == str(GUID)
    assert mine.stream_id(HASH) == HASH
    other = topology.source("u", inspector=DebeziumTransactions())
    assert other.stream_id("shop|571") == "shop|571"


def test_a_lane_is_named_by_its_stream_in_any_form() -> None:
    topology = Topology("shop")
    source = topology.source("t", inspector=Inspector("id", "n", stream_type="guid"))
    topology.view("v", of=source, lane="currency", handler=lambda event: None)
    view = topology.views["v"]
    assert view.stream_id(f"{GUID.hex}|EUR") == f"{GUID}|EUR"
    assert view.stream_id(GUID.hex) == str(GUID)
    record = Record(view.commands_topic, 0, 0, None, b"")
    assert _stream_of(view, Command("skip", "v", f"{GUID.hex}|EUR", 1), record) == str(GUID)


def test_an_id_of_several_fields_has_room_in_every_store() -> None:
    worst = StreamIds().joined(["%" * 216, "%" * 216])
    assert len(worst) == 1_297
    assert len(joined_lane(worst, "x" * 500)) < STREAM_BYTES
    with pytest.raises(Malformed, match="2051 bytes together; the limit is 1300"):
        StreamIds().joined(["ß" * 512, "ß" * 512, "a"])
