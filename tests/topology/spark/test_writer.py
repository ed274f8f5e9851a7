"""A batch that Spark runs again is written once, and a driver that was replaced writes no more."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from aiokafka.errors import ProducerFenced

from tests.conftest import BrokerAddress
from tests.topology.spark.live_process import records
from topology import Inspector, Topology
from topology.spark.codec import OutgoingRecord
from topology.spark.settings import Settings
from topology.spark.writer import OutputWriter

pytestmark = pytest.mark.integration


@pytest.fixture
def shop(unique: Callable[[str], str], create_topics: Callable[[dict[str, int]], None]) -> Topology:
    shop = Topology(unique("shop"))
    source = f"{shop.name}.in"
    create_topics({source: 1})
    orders = shop.source(source, inspector=Inspector("id", "n"), name="orders", partitions=1)
    shop.view("board", of=orders, handler=lambda event: None)
    return shop


@pytest.fixture
def writer_of(
    shop: Topology, broker: BrokerAddress, tmp_path: Path
) -> Iterator[Callable[[str | None], OutputWriter]]:
    """Query, or None for a new one → a writer that has started."""
    made: list[OutputWriter] = []

    def start(query: str | None) -> OutputWriter:
        made.append(OutputWriter(Settings(broker.address, str(tmp_path)), shop))
        made[-1].start(query)
        return made[-1]

    yield start
    for writer in made:
        writer.close()


def test_a_batch_that_is_run_again_is_written_once(
    shop: Topology, broker: BrokerAddress, writer_of: Callable[[str | None], OutputWriter]
) -> None:
    output, source = shop.views["board"].output, f"{shop.name}.in"

    def write(writer: OutputWriter, batch: int, made: int = 0) -> None:
        record = OutgoingRecord(output, 0, 1, b"a", b"%d" % batch, [])
        writer.write("query", (batch, made or batch), [record], {source: {"0": batch + 1}})

    first = writer_of(None)
    write(first, 0)
    write(first, 1)
    write(first, 1)
    # The driver is thought to be dead, and its last batch is run again by the next one.
    second = writer_of("query")
    write(second, 1)
    write(second, 2)
    with pytest.raises(ProducerFenced):
        write(first, 2)
    assert [record.value() for record in records(broker.address, output)] == [b"0", b"1", b"2"]
    # The batches of another query, whose checkpoint is new, are others.
    assert writer_of("another").written == (-1, -1)


def test_a_batch_behind_a_checkpoint_that_was_put_back_is_written(
    shop: Topology, broker: BrokerAddress, writer_of: Callable[[str | None], OutputWriter]
) -> None:
    """It was left out for its number, which an older batch had; what it held was nowhere."""
    output, source = shop.views["board"].output, f"{shop.name}.in"

    def write(writer: OutputWriter, batch: int, made: int, value: bytes) -> None:
        record = OutgoingRecord(output, 0, 1, b"a", value, [])
        writer.write("query", (batch, made), [record], {source: {"0": made}})

    first = writer_of(None)
    for batch in range(4):
        write(first, batch, 100 + batch, b"%d" % batch)
    second = writer_of("query")  # from a copy of the checkpoint of batch 1
    write(second, 2, 200, b"2 again")
    third = writer_of("query")
    write(third, 2, 200, b"2 once more")
    write(third, 3, 201, b"3 again")
    said = [record.value() for record in records(broker.address, output)]
    assert said == [b"0", b"1", b"2", b"3", b"2 again", b"3 again"]
