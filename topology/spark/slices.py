"""The files that a rebuild's tasks leave, one each: complete, or not there.

A task that finds its file does nothing, so that a rebuild that was killed goes on with the tasks
that were not done. The files are Arrow's, on any file system that Arrow knows.
"""

import json
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple
from uuid import uuid4

import pyarrow as pa
import pyarrow.fs as pafs

from topology.view_rebuild import Rebuilt

ROWS = 2_000
"""The most records of one batch in a file."""
BYTES = 16 << 20
"""Of their values, from which on a batch is full as well."""

_SCHEMA = pa.schema(
    [
        ("view", pa.string()),
        ("stream", pa.string()),
        ("value", pa.binary()),
        ("chain", pa.binary()),
        ("topic", pa.string()),
        ("key", pa.binary()),
        ("headers", pa.binary()),
    ]
)
"""A record of a view; with a topic, a message that a handler sent. headers: as JSON, Latin-1."""


class Emitted(NamedTuple):
    """A message that a handler sent."""

    topic: str
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes]]


class SliceRecord(NamedTuple):
    """A record of a stream. chain: the hash of what was said for it, empty if not asked for."""

    view: str
    stream: str
    value: bytes
    chain: bytes


class Slices:
    """The files of a rebuild in a folder, which is made."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self._fs, self._path = pafs.FileSystem.from_uri(folder)
        self._fs.create_dir(self._path, recursive=True)

    def done(self) -> list[int]:
        """The numbers of the files that are complete."""
        found = self._fs.get_file_info(pafs.FileSelector(self._path))
        names = (info.base_name for info in found)
        return sorted(int(name[6:-6]) for name in names if name.endswith(".arrow"))

    def tally(self, number: int) -> dict[str, Any] | None:
        """What was noted with a file, None where it is not complete."""
        path = self._file(number)
        if self._fs.get_file_info(path).type != pafs.FileType.File:
            return None
        with self._fs.open_input_file(path) as file:
            reader = pa.ipc.open_file(file)
            for at in range(reader.num_record_batches - 1, -1, -1):
                found = reader.get_batch_with_custom_metadata(at).custom_metadata
                if found is not None and b"tally" in found:
                    tally: dict[str, Any] = json.loads(found[b"tally"])
                    return tally
        return None

    def write(self, number: int, rows: Iterable[Rebuilt | Emitted], tally: Any) -> None:
        """Write a file. tally: () → what to note with it, when all rows are there."""
        # A task of a job that was killed may be writing the same one yet.
        path, unfinished = self._file(number), f"{self._path}/unfinished-{uuid4().hex}"
        with self._fs.open_output_stream(unfinished) as file:
            options = pa.ipc.IpcWriteOptions(compression="lz4")
            with pa.ipc.new_file(file, _SCHEMA, options=options) as writer:
                batch: list[Rebuilt | Emitted] = []
                size = 0
                for row in rows:
                    batch.append(row)
                    size += len(row.value or b"")
                    if len(batch) >= ROWS or size >= BYTES:
                        writer.write_batch(_batch(batch))
                        batch.clear()
                        size = 0
                noted = {"tally": json.dumps(tally())}
                writer.write_batch(_batch(batch), custom_metadata=noted)
        self._fs.move(unfinished, path)

    def read(self, number: int) -> Iterator[list[SliceRecord | Emitted]]:
        """A file's rows, batch by batch, as they were written."""
        with self._fs.open_input_file(self._file(number)) as file:
            reader = pa.ipc.open_file(file)
            for at in range(reader.num_record_batches):
                yield list(_rows(reader.get_batch(at)))

    def delete(self) -> None:
        """Delete the files."""
        self._fs.delete_dir(self._path)

    def _file(self, number: int) -> str:
        return f"{self._path}/slice-{number:05d}.arrow"


def _batch(rows: list[Rebuilt | Emitted]) -> pa.RecordBatch:
    columns: list[list[Any]] = [[] for _ in _SCHEMA]
    for row in rows:
        if isinstance(row, Emitted):
            headers = json.dumps(
                [(n, None if v is None else v.decode("latin-1")) for n, v in row.headers]
            )
            found: tuple[Any, ...] = (
                *(None, None, row.value, None),
                *(row.topic, row.key, headers),
            )
        else:
            chain = b"" if row.chain is None else row.chain.hash
            found = (row.view, row.stream, row.value, chain, None, None, None)
        for column, value in zip(columns, found, strict=True):
            column.append(value)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, _SCHEMA, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=_SCHEMA)


def _rows(batch: pa.RecordBatch) -> Iterator[SliceRecord | Emitted]:
    columns = (batch.column(field.name).to_pylist() for field in _SCHEMA)
    for view, stream, value, chain, topic, key, headers in zip(*columns, strict=True):
        if topic is None:
            yield SliceRecord(view, stream, value, chain)
        else:
            pairs = json.loads(headers)
            plain: list[Any] = [(n, None if v is None else v.encode("latin-1")) for n, v in pairs]
            yield Emitted(topic, key, value, plain)
