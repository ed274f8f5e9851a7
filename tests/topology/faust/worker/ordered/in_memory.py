"""An ordered partition without a broker: its log, its commits and its table are in memory."""

import asyncio
import itertools
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import orjson
from aiokafka import TopicPartition

from stores.view_state.memory import MemoryTable
from topology import Topology
from topology.engine.commit_unit import CommitUnit
from topology.engine.staged_effects import StagedEffects
from topology.engine.state.rows import BUFFERS, HOLES, WORK, decode_holes, split_buffer_key
from topology.faust.worker.operator_orders import OperatorOrders
from topology.faust.worker.ordered.lent_connections import LentConnections
from topology.faust.worker.ordered.ordered_runner import OrderedRunner
from topology.model.event import Record
from topology.ordered_commit import OffsetRanges, OrderedCommit

TOPIC = TopicPartition("in", 0)


class Log:
    """A topic's partition: a reader of it, whose records are appended while it runs."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.at = 0
        self.most = 1_000_000
        """Records of one fetch."""

    def append(
        self, key: str | None, value: Any, headers: Sequence[tuple[str, bytes]] = ()
    ) -> None:
        offset = self.records[-1].offset + 1 if self.records else 0
        raw = None if key is None else key.encode()
        body = value if isinstance(value, bytes) else orjson.dumps(value)
        self.records.append(Record("in", 0, offset, raw, body, headers))

    def seek(self, _: TopicPartition, offset: int) -> None:
        self.at = offset

    async def fetch(self, _: TopicPartition, timeout: float, most: int) -> Sequence[Record]:
        await asyncio.sleep(0.001)
        found = [record for record in self.records if record.offset >= self.at][: self.most]
        self.at = found[-1].offset + 1 if found else self.at
        return found

    async def position(self, _: TopicPartition) -> int:
        return self.at

    async def first(self, _: TopicPartition) -> int:
        return self.records[0].offset if self.records else self.at

    def pause(self, _: TopicPartition) -> None:
        pass

    def resume(self, _: TopicPartition) -> None:
        pass


class Partition:
    """What outlives a run: the log, the table, the units; as much of it as was committed."""

    def __init__(self, topology: Topology) -> None:
        self.topology = topology
        self.stage = topology.stages[0]
        self.log, self.table = Log(), MemoryTable()
        self.units: list[CommitUnit] = []
        self.numbers = itertools.count(1)
        self.producer: object = None
        self.running: dict[TopicPartition, OrderedCommit] = {}
        self.losses: dict[TopicPartition, dict[tuple[int, bool], int]] = {}
        self.undoing: dict[tuple[TopicPartition, int], set[Future[Any]]] = {}
        self.orders = OperatorOrders(None, "audit")
        self.on_commit: Callable[[CommitUnit], None] = lambda unit: None
        self.failure: BaseException | None = None
        self.runner = self.new_run()

    async def new_sql_run(self, url: str) -> OrderedRunner:
        """The same, with connections to a database."""
        lent = LentConnections(url, "t.work", TOPIC, self.stage.work.workers)
        row = self.table.get(HOLES)
        position, done = (0, OffsetRanges()) if row is None else decode_holes(row)
        await lent.open(lambda offset: offset < position or offset in done)
        return self.new_run(lent)

    def new_run(self, lent: LentConnections | None = None) -> OrderedRunner:
        """A runner that goes on where the last one was committed."""
        position, done = 0, OffsetRanges()
        if (row := self.table.get(HOLES)) is not None:
            position, done = decode_holes(row)
        last = self.running.get(TOPIC)
        core = self.running[TOPIC] = OrderedCommit(
            self.stage.work.rules, done, position, numbers=self.numbers,
            still_running=() if last is None else last.still_running,
        )  # fmt: skip
        context: Any = SimpleNamespace(
            timings=None,
            shared_reader=self.log,
            running=self.running,
            losses=self.losses,
            undoing=self.undoing,
            refusals=lambda *_: None,
            producer=self.producer,
            orders=self.orders,
        )
        parked = [split_buffer_key(key) for key, _ in self.table.scan(*BUFFERS)]
        effects = StagedEffects(self.stage, self.table, parked)
        writer: Any = self
        self.runner = OrderedRunner(
            TOPIC, self.stage, writer, context, core, effects, self.table, lent
        )
        return self.runner

    async def commit(self, unit: CommitUnit, source: TopicPartition) -> dict[str, int]:
        await asyncio.sleep(0.001)
        self.on_commit(unit)
        for records in (*unit.keyed.values(), *unit.colocated.values()):
            # Retention would delete it at once.
            assert all(record[2] > 0 for record in records), "a message without its time"
        keys = {key for rows in unit.rows.values() for key, _ in rows}
        tells = (
            WORK in keys
            and keys <= {HOLES, WORK}
            and not (unit.keyed or unit.colocated or unit.reports)
        )
        if not tells or (self.units and unit.next_offset != self.units[-1].next_offset):
            self.units.append(unit)
        return {}

    async def stop(self) -> None:
        """The writer's."""

    def start(self) -> None:
        self.failure = None

        def ended(runner: Any, error: BaseException | None) -> None:
            if runner is self.runner:
                self.failure = error

        self.runner.start(ended)

    async def until(self, true: Callable[[], bool]) -> None:
        """Wait until it is so; the test fails where the runner does."""
        async with asyncio.timeout(180):
            while not true():
                if self.failure is not None:
                    raise self.failure
                await asyncio.sleep(0.005)

    def out(self, topic: str) -> list[Any]:
        """The values of all messages that were committed to a topic."""
        records = (
            record
            for unit in self.units
            for record in (*unit.keyed.get(topic, ()), *unit.colocated.get(topic, ()))
        )
        return [orjson.loads(record[1] or b"null") for record in records]
