"""How far the live views were at the snapshot, read once and kept with the plan.

Compaction of the changelogs goes on: what says it now may be gone when a rebuild is resumed.
"""

import os
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any, Self

import pyarrow as pa

from stores.paths import is_there
from topology.faust.worker.progress_rows import progress_rows
from topology.faust.worker.snapshot import Spans

LOOK = 0.1
"""Seconds between two looks whether it is read."""
ROWS = 10_000
"""Rows of one batch in the file."""

Progress = dict[str, dict[str, bytes]]
"""View → its stream → its progress row."""

_SCHEMA = pa.schema([("view", pa.string()), ("stream", pa.string()), ("row", pa.binary())])


class Limits:
    """Reads the views' progress while its user does something else, such as starting Spark.

    changelogs: of the views by name. file: where the progress is kept, or was before. check: what
    it raises ends the waiting.
    """

    def __init__(
        self, app: Any, changelogs: Mapping[str, Spans], file: Path, check: Callable[[], None]
    ) -> None:
        self._check = check
        self._stopped = False
        pool = ThreadPoolExecutor(1, "limits")
        self._found: Future[Progress] = pool.submit(self._find, app, changelogs, file)
        pool.shutdown(wait=False)

    def progress(self) -> Progress:
        """The progress, waited for. Raises KafkaError, and what `check` raises."""
        while not wait([self._found], LOOK).done:
            self._check()
        return self._found.result()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        """Read no further."""
        self._stopped = True
        wait([self._found])

    def _find(self, app: Any, changelogs: Mapping[str, Spans], file: Path) -> Progress:
        if is_there(file):
            return _load(file)
        found = progress_rows(app, changelogs, self._may_go_on)
        _save(file, found)
        return found

    def _may_go_on(self) -> None:
        if self._stopped:
            raise InterruptedError


def _save(file: Path, progress: Progress) -> None:
    new = file.with_suffix(".new")
    with new.open("wb") as target:
        with pa.ipc.new_file(target, _SCHEMA) as writer:
            for view, rows in progress.items():
                names = [view] * len(rows)
                table = pa.table([names, list(rows), list(rows.values())], schema=_SCHEMA)
                writer.write_table(table, ROWS)
        target.flush()
        os.fsync(target.fileno())
    new.replace(file)


def _load(file: Path) -> Progress:
    found: Progress = {}
    with pa.ipc.open_file(file) as reader:
        for number in range(reader.num_record_batches):
            columns = (column.to_pylist() for column in reader.get_batch(number).columns)
            for view, stream, row in zip(*columns, strict=True):
                found.setdefault(view, {})[stream] = row
    return found
