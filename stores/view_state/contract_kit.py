"""What the parts of the view-state stores' contract share: a store for each test, and programs."""

import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from typing import ClassVar

import pytest

from stores.view_state.by_url import open_store
from stores.view_state.table import Store, TableBusy, ViewTable
from topology.model.partition_table import Row

Rows = dict[bytes, bytes]
ALL = (b"\1", b"\xff" * 80)
"""The range of all keys."""
GROUP = "shop"


class StoreUnderTest:
    """See `ViewStoreContract`."""

    url: str
    durable: ClassVar[bool] = True
    keeps_all: ClassVar[bool] = True
    shared: ClassVar[bool] = False
    streams: ClassVar[int] = 1_000_000
    memory: ClassVar[int | None] = 200 << 20

    def spoil(self) -> Callable[[], None]:
        """Damage the store's files, or stop its server; returns what repairs it as an operator may.

        Nothing of it is open in this process.
        """
        raise NotImplementedError

    def applies(self, is_so: bool, otherwise: str) -> None:
        """Skip a test that says nothing of this backend, with the reason."""
        if not is_so:
            pytest.skip(f"does not apply to this store: {otherwise}")

    @pytest.fixture
    def store(self) -> Iterator[Store]:
        store = open_store(self.url, GROUP)
        yield store
        store.close()

    def run(self, program: str, *arguments: str) -> subprocess.Popen[bytes]:
        """Run a program in a process of its own: it gets the URL, the group and these arguments."""
        command = [sys.executable, "-c", f"import sys\nsys.path[:0] = {sys.path!r}\n{program}"]
        return subprocess.Popen([*command, self.url, GROUP, *arguments], stdout=subprocess.PIPE)


class claimed:
    """A table that is claimed, for as long as a test needs it."""

    def __init__(self, store: Store, view: str = "board", partition: int = 0) -> None:
        self._table = store.table(view, partition)

    def __enter__(self) -> ViewTable:
        self._table.claim()
        return self._table

    def __exit__(self, *_: object) -> None:
        self._table.close()


def all_rows(table: ViewTable) -> Rows:
    return dict(table.scan(*ALL))


def write(table: ViewTable, rows: Iterable[Row], offset: int) -> None:
    """`table.write`, and as a worker does it: again while the table is busy.

    A loop that does nothing else is faster than the disk of a machine that has other work.
    """
    rows, until = list(rows), time.monotonic() + 60
    while True:
        try:
            return table.write(rows, offset)
        except TableBusy:
            if time.monotonic() > until:
                raise
            time.sleep(0.01)


def uses(table: ViewTable) -> list[Callable[[], object]]:
    return [
        lambda: table.get(b"pa"),
        lambda: table.get(b"nothing"),
        lambda: list(table.scan(*ALL)),
        lambda: table.write([(b"pa", b"9")], 9),
        table.clear,
    ]


def state_at(offset: int) -> Rows:
    """What the program `FILL` has written when it is at an offset."""
    value = b"%d" % offset + b" " * 500
    rows = {b"k%03d" % number: value for number in range(400)} if offset else {}
    rows.update({b"u%06d" % unit: b"x" for unit in range(max(offset - 4, 1), offset + 1)})
    return rows


FILL = """
from stores.view_state.by_url import open_store
from stores.view_state.contract_kit import write
url, group, view, until = sys.argv[1:]
table = open_store(url, group).table(view, 0)
table.claim()
for unit in range((table.offset or 0) + 1, int(until) + 1):
    rows = [(b"k%03d" % number, b"%d" % unit + b" " * 500) for number in range(400)]
    write(table, [*rows, (b"u%06d" % unit, b"x"), (b"u%06d" % (unit - 5), None)], unit)
    print(unit, flush=True)
table.close()
"""

IDLE = """
import resource
from stores.view_state.by_url import open_store
from stores.view_state.contract_kit import write
url, group, view, streams = sys.argv[1:]
table = open_store(url, group).table(view, 0)
table.claim()
table.write([(b"bx" + bytes(9), b"waits")], 1)
def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024  # kilobytes, as Linux counts
before = peak()
for first in range(0, int(streams), 4000):
    write(table, [(b"pstream-%d" % n, b"17") for n in range(first, first + 4000)], first + 2)
for n in range(0, int(streams), max(int(streams) // 997, 1)):
    assert table.get(b"pstream-%d" % n) == b"17"
print(peak() - before, sum(1 for _ in table.scan(b"b", b"c")))
"""
