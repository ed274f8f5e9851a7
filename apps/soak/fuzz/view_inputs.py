"""Records in a view's by-stream, redelivery and commands topics: others may write there as well."""

from typing import Any, NamedTuple

from hypothesis import strategies as st

from soak.fuzz.mutation import HEADERS, bodies, changed_bytes, headers
from stores.view_state.memory import MemoryTable
from topology import Inspector, Record, Topology, redeliver, skip, spill
from topology.engine.commands.execute import decode_command, execute
from topology.engine.commit_unit import CommitUnit
from topology.engine.partition.pending_redelivery import RedeliveryQueue
from topology.engine.redelivery.records import ATTEMPT, NOT_BEFORE, SEQUENCE
from topology.engine.stream_task import StreamTask
from topology.model.origin_headers import ORIGIN, ORIGIN_KEY

_NOW = 1_700_000_000_000
_BODIES = [{"id": "a", "n": number} for number in (1, 2, 3, 9, 200)]
_PLACE = b"in/0/7/1700000000000"


class Written(NamedTuple):
    """A record as somebody wrote it."""

    key: bytes | None
    value: bytes | None
    headers: HEADERS


class Partition:
    """A partition that two views read, each with a policy of its own."""

    def __init__(self) -> None:
        self.topology = topology = Topology("fuzz")
        source = topology.source("in", inspector=Inspector("id", "n"))
        topology.view("skips", of=source, gap=skip(after=1), full=spill(), buffer=4)(_seen)
        topology.view("again", of=source, full=redeliver(), buffer=4)(_seen)
        self.tables = {name: MemoryTable() for name in topology.views}
        self.task = StreamTask(topology, source, 0, self.tables, now=_NOW)
        self.now = _NOW

    def record(self, topic: str, offset: int, written: Written) -> Record:
        said: Any = written.headers
        return Record(topic, 0, offset, written.key, written.value, said, _NOW)

    def finish(self, unit: CommitUnit) -> None:
        """The unit is durable."""
        self.task.finish(unit)
        for name, rows in unit.rows.items():
            self.tables[name].write(rows)

    def check(self) -> None:
        """Every event is in one place."""
        for name, view in self.task.views.items():
            counts = view.state.counts
            assert counts.received == counts.accounted, (name, counts)


def _seen(event: object) -> None:
    """Keeps nothing."""


def _records(names: list[str], good: list[bytes]) -> st.SearchStrategy[Written]:
    key = st.none() | st.binary(max_size=10) | changed_bytes(b"a") | st.just(b"a")
    return st.builds(Written, key, bodies(_BODIES), headers(names, good))


class ByStreamRecords:
    """What re-keying writes, changed: an origin that is none, a key of another stream."""

    name = "by-stream-records"

    def strategy(self) -> st.SearchStrategy[list[Written]]:
        """Some records."""
        return st.lists(_records([ORIGIN, ORIGIN_KEY], [_PLACE, b"a"]), min_size=1, max_size=10)

    def run(self, input: list[Written]) -> None:
        """Each is malformed, unknown, or an event of both views."""
        partition = Partition()
        topic, taken = partition.task.source.by_stream, partition.task.intake
        for at, written in enumerate(input):
            partition.now += 700
            horizon = partition.now - 700
            record = partition.record(topic, at, written)
            unit = partition.task.process([record], partition.now, horizon)
            partition.finish(unit)
            events = at + 1 - taken.malformed - taken.unknown
            assert taken.read == at + 1
            for view in partition.task.views.values():
                assert view.state.counts.received == events
        partition.check()


class RedeliveryRecords:
    """What a view sends away, changed: times, attempts and sequences that are none."""

    name = "redelivery-records"

    def strategy(self) -> st.SearchStrategy[list[Written]]:
        """Some records; the headers of a good one stand in this order."""
        number = bodies([b"0", b"1", b"9", b"%d" % (2**63), b"-1", b"1700000000000"])
        good = st.tuples(number, number, number, st.just(_PLACE) | changed_bytes(_PLACE)).map(
            lambda v: [(NOT_BEFORE, v[0]), (ATTEMPT, v[1]), (SEQUENCE, v[2]), (ORIGIN, v[3])]
        )
        any_ = headers([NOT_BEFORE, ATTEMPT, SEQUENCE, ORIGIN, ORIGIN_KEY], [b"7", _PLACE])
        key = st.just(b"a") | changed_bytes(b"a") | st.none()
        record = st.builds(Written, key, bodies(_BODIES), good | any_)
        return st.lists(record, min_size=1, max_size=10)

    def run(self, input: list[Written]) -> None:
        """Each comes back as an event, in its time, or is set aside as malformed; none stays."""
        partition = Partition()
        view = partition.task.views["again"]
        away = RedeliveryQueue(view)
        topic = view.view.redeliver_topic
        records = [partition.record(topic, at, written) for at, written in enumerate(input)]
        away.read(records, partition.now)
        # Further off than any event is sent away for.
        partition.now += 100_000_000
        malformed = came = 0
        for _ in range(len(input) + 2):
            again = away.take(partition.now)
            back = view.take_redeliveries(again, partition.now) if again else []
            unit = CommitUnit(partition.task.source.by_stream, 0, now=partition.now)
            view.run([], unit, None, back)
            malformed += len(unit.keyed[partition.topology.malformed_topic])
            came += len(back)
            partition.finish(unit)
        assert came + malformed == len(input), (came, malformed)
        assert view.state.positions.redelivered == len(input)
        partition.check()


class CommandRecords:
    """What operators write, changed."""

    name = "command-records"

    def strategy(self) -> st.SearchStrategy[list[bytes | None]]:
        """The values of some records."""
        names = ["skip", "redrive", "unpark", "halt", "resume", "drop", "cancel", "rebuild"]
        good = [
            {"name": name, "view": "skips", "stream": "a", "sequence": 7, "who": "me", "force": f}
            for name in names
            for f in (False, True)
        ]
        return st.lists(bodies(good), min_size=1, max_size=8)

    def run(self, input: list[bytes | None]) -> None:
        """Each is carried out or refused, which the audit topic has, or told as none."""
        partition = Partition()
        view = partition.task.views["skips"]
        for value in input:
            unit = CommitUnit(partition.task.source.by_stream, 0, now=partition.now)
            try:
                execute(view, decode_command(value), unit)
                told = len(unit.keyed[partition.topology.audit_topic])
            except ValueError as error:
                told = len(str(error))
            assert told >= 1, "a command of which nothing is told"
            partition.finish(unit)
        partition.check()
