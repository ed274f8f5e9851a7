"""Records of output topics, as a materializer gets them: each is applied, a duplicate, or dead."""

import atexit
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from hypothesis import strategies as st

from checkout.postgres import Postgres
from soak.fuzz.mutation import bodies
from stores.sinks import Sink, open_sink
from topology import Table

_TABLES = [
    Table("board", key={"order": str}, columns={"status": str, "paid": float, "open": bool}),
    Table("counts", key={"day": int, "place": str}, columns={"n": int}),
]


def _upsert(table: str, key: object, values: object) -> dict[str, object]:
    return {"op": "upsert", "table": table, "key": key, "values": values}


_SAMPLES = [
    {
        "view": "orders",
        "stream": "A-17",
        "sequence": at,
        "changes": [
            _upsert("board", {"order": "A-17"}, {"status": "paid", "paid": 9.5, "open": True}),
            _upsert("counts", {"day": 7, "place": "EWR"}, {"n": at}),
            {"op": "delete", "table": "board", "key": {"order": "A-18"}},
        ][:at],
    }
    for at in (1, 2, 3)
] + [{"view": "orders", "stream": "A-17", "sequence": 5, "epoch": 2, "changes": []}]
_PLACES = ("applied", "replayed", "duplicates", "dead")

Batch = list[tuple[int, bytes | None]]
"""(partition, value) of one batch's records."""


class _Records:
    """Batches into one read store, one after the other."""

    def __init__(self, url: Callable[[ExitStack], str]) -> None:
        self._url = url
        self._sink: Sink | None = None
        self._offsets = [0, 0]

    def strategy(self) -> st.SearchStrategy[Batch]:
        """Row changes of all tables, changed in up to three places."""
        record = st.tuples(st.integers(0, 1), bodies(_SAMPLES))
        return st.lists(record, min_size=1, max_size=8)

    def run(self, input: Batch) -> None:
        """The batch does not fail, and its records are counted one by one."""
        if self._sink is None:
            stack = ExitStack()
            atexit.register(stack.close)
            self._sink = stack.enter_context(open_sink(self._url(stack), _TABLES))
        records = []
        for partition, value in input:
            records.append(("fuzz.orders", partition, self._offsets[partition], value))
            self._offsets[partition] += 1
        done = self._sink.apply(records)
        assert done.records == len(records), done
        assert sum(getattr(done, place) for place in _PLACES) == len(records), done
        assert (done.dead == 0) == (done.reason is None), done
        for found in self._sink.progress():
            assert found.next_offset == self._offsets[found.partition], found
            assert found.applied + found.duplicates + found.dead == found.next_offset, found
        for table in _TABLES:
            assert sum(1 for _ in self._sink.rows(table.name)) == self._sink.count(table.name)


def _sqlite(stack: ExitStack) -> str:
    folder = stack.enter_context(tempfile.TemporaryDirectory())
    return f"sqlite:///{Path(folder).absolute()}/read.db"


class SqliteRecords(_Records):
    """Into SQLite."""

    name = "output-records-sqlite"

    def __init__(self) -> None:
        super().__init__(_sqlite)


class PostgresRecords(_Records):
    """Into PostgreSQL."""

    name = "output-records-postgresql"

    def __init__(self) -> None:
        super().__init__(lambda stack: stack.enter_context(Postgres()).new_database("fuzz"))
