"""How fast the view-state stores are on this machine: `python -m bench.view_stores`.

Units of 4,000 rows, as a step writes them, over 200,000 streams; then reads of single rows, as of
streams that are not in a view's cache. PostgreSQL and Redis run beside, on Unix sockets, with the
settings that they come with; SQLite, RocksDB and the flat files write to a temporary folder.
"""

import argparse
import random
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

from checkout.postgres import Postgres
from checkout.redis import Redis
from stores.view_state.by_url import open_store

UNIT, STREAMS, READS = 4000, 200_000, 5000


def main(arguments: list[str] | None = None) -> int:
    """Measure, and print a table in Markdown."""
    parser = argparse.ArgumentParser(prog="python -m bench.view_stores", description=__doc__)
    parser.add_argument("--units", type=int, default=100, help="per store; default: %(default)s")
    options = parser.parse_args(arguments)
    print("| store | rows/s written | ms per unit, median and longest | µs per row read |")
    print("|---|---|---|---|")
    with ExitStack() as servers:
        folder = Path(servers.enter_context(tempfile.TemporaryDirectory(prefix="sequitur-bench-")))
        urls = {
            "memory": "memory",
            "RocksDB": "rocksdb",
            "flat files": "files",
            "SQLite": f"sqlite:///{folder}/state.sqlite",
            "PostgreSQL": servers.enter_context(Postgres({})).url,
            "Redis": servers.enter_context(Redis()).url,
        }
        for name, url in urls.items():
            units, read = measure(url, folder, options.units)
            rate = UNIT * len(units) / sum(units)
            middle, longest = sorted(units)[len(units) // 2] * 1000, max(units) * 1000
            print(f"| {name} | {rate:,.0f} | {middle:.0f}, {longest:.0f} | {read * 1e6:.0f} |")
    return 0


def measure(url: str, folder: Path, units: int) -> tuple[list[float], float]:
    """(seconds of each unit's write, seconds of a row's read)."""
    store = open_store(url, "bench", folder)
    table = store.table("board", 0)
    table.claim()
    chance, took = random.Random(1), []
    for offset, rows in enumerate(_units(chance, units)):
        began = time.perf_counter()
        table.write(rows, offset)
        took.append(time.perf_counter() - began)
    began = time.perf_counter()
    for _ in range(READS):
        table.get(b"paircraft-%d" % chance.randrange(STREAMS))
    read = (time.perf_counter() - began) / READS
    table.close()
    store.close()
    return took, read


def _units(chance: random.Random, units: int) -> Iterator[list[tuple[bytes, bytes | None]]]:
    """A step's rows: most are streams that moved; some events begin to wait, some end."""
    for unit in range(units):
        rows: list[tuple[bytes, bytes | None]] = [
            (b"paircraft-%d" % stream, b"%d" % unit)
            for stream in chance.sample(range(STREAMS), UNIT * 9 // 10)
        ]
        for number in range(UNIT // 20):
            rows.append((b"baircraft-%d\0%08d" % (number, unit), b'{"altitude": 31000}' * 20))
            rows.append((b"baircraft-%d\0%08d" % (number, unit - 3), None))
        yield rows


if __name__ == "__main__":
    raise SystemExit(main())
