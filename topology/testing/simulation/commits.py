"""How a simulated partition makes a unit durable: step by step, in the live runtime's order."""

from collections.abc import Callable, Generator, Iterator, Sequence

from topology.engine.commit_unit import NO_HEADERS, CommitUnit, Out
from topology.testing.simulation.disk import FakeTable
from topology.testing.simulation.fake_log import Producer
from topology.testing.simulation.log_partition import TopicPartition
from topology.testing.simulation.worker import Worker
from topology.testing.simulation.world import World

Send = Callable[[TopicPartition, Sequence[Out]], int]
"""(partition, records) → the offset behind the last."""


class Commits:
    """Commits the units of one input partition; between two steps anything may go wrong.

    producer: the partition's own, once it is started. tables: of its views. committed: the input
    offset up to which all is durable.
    """

    def __init__(self, world: World, worker: Worker, place: TopicPartition) -> None:
        self.world = world
        self.worker = worker
        self.place = place
        self.producer: Producer | None = None
        self.tables: dict[str, FakeTable] = {}
        self.committed = 0

    def commit(self, unit: CommitUnit) -> Iterator[str]:
        """Make a unit durable, then write the tables."""
        if not unit:
            return
        if self.world.guarantee == "exactly_once":
            yield from self.commit_exactly_once(unit)
        else:
            yield from self.commit_at_least_once(unit)
        if unit.next_offset is not None:
            self.committed = unit.next_offset
        yield "done"

    def commit_exactly_once(self, unit: CommitUnit) -> Iterator[str]:
        """One transaction holds it all; the tables follow."""
        producer = self.producer
        assert producer is not None
        producer.begin()
        yield "begun"
        ends = yield from self.send(unit, producer.send)
        if unit.next_offset is not None:
            producer.send_offsets([(self.place, unit.next_offset)])
            yield "offsets"
        producer.commit()
        yield "prepared"
        yield from self.write_tables(unit, ends)

    def commit_at_least_once(self, unit: CommitUnit) -> Iterator[str]:
        """Outputs, then changelog rows, then tables; offsets with the next heartbeat."""
        ends = yield from self.send(unit, self.world.log.append)
        if unit.next_offset is not None:
            self.worker.uncommitted[self.place] = unit.next_offset
        yield from self.write_tables(unit, ends)

    def send(self, unit: CommitUnit, send: Send) -> Generator[str, None, dict[str, int]]:
        """Send outputs, then changelog rows. Returns view → changelog offset behind its rows."""
        ends = {}
        for place, records in self.outputs(unit):
            send(place, records)
            yield "outputs"
        for view, rows in self.changes(unit):
            ends[view] = send(self.world.changelog(view, unit.partition), rows)
            yield "changelog"
        return ends

    def write_tables(self, unit: CommitUnit, ends: dict[str, int]) -> Iterator[str]:
        """Write the rows, with the changelog offset behind them."""
        for view, rows in unit.rows.items():
            self.tables[view].write(rows, ends.get(view))
            yield "table"

    def outputs(self, unit: CommitUnit) -> Iterator[tuple[TopicPartition, list[Out]]]:
        """The unit's outputs by the partition they go to."""
        for topic, records in unit.colocated.items():
            yield (topic, unit.partition), records
        sides = self.world.layout.sides
        for topic, records in unit.keyed.items():
            if topic in sides:
                yield (topic, 0), records
                continue
            by_partition: dict[int, list[Out]] = {}
            for record in records:
                by_partition.setdefault(self.world.partition_of(record[0]), []).append(record)
            for partition, part in by_partition.items():
                yield (topic, partition), part

    def changes(self, unit: CommitUnit) -> Iterator[tuple[str, list[Out]]]:
        """The unit's rows as changelog records, by view."""
        for view, rows in unit.rows.items():
            yield view, [(key, value, 0, NO_HEADERS) for key, value in rows]
