"""A query's checkpoint folder: Spark's notes in it, and ours beside them."""

from typing import Any

import orjson
from pyspark.sql import SparkSession

from topology.declaration.topology import Topology
from topology.spark.settings import CannotRun

OURS = "sequitur"
"""The folder of our own notes."""


class Checkpoint:
    """Reads and writes through Spark's own file systems, wherever the folder is."""

    def __init__(self, spark: SparkSession, folder: str) -> None:
        jvm: Any = spark._jvm
        context: Any = spark._jsc
        self.folder = folder
        self._path = jvm.org.apache.hadoop.fs.Path
        self._text = jvm.org.apache.commons.io.IOUtils.toString
        self._files = self._path(folder).getFileSystem(context.hadoopConfiguration())

    def offsets(self, batch: int) -> str | None:
        """Spark's note of a planned batch."""
        return self._read(f"offsets/{batch}")

    @property
    def planned(self) -> int:
        """The number of the last batch that Spark planned, -1 if there is none."""
        return self._last("offsets")

    @property
    def committed(self) -> int:
        """The number of the last batch that Spark noted as done, -1 if there is none."""
        return self._last("commits")

    @property
    def query(self) -> str | None:
        """The id of the query, None before its first start."""
        text = self._read("metadata")
        return None if text is None else str(orjson.loads(text)["id"])

    def limits(self, limit: int) -> "Limits":
        """From which batch on which limit holds, with `limit` from the next planned one on.

        Each is an empty file whose name says it: there is none that is half written.
        """
        names = [name for name in self._names(f"{OURS}/limits") if not name.startswith(".")]
        known = sorted(
            (int(first), int(held)) for first, _, held in (n.partition("-") for n in names)
        )
        if not known or known[-1][1] != limit:
            known.append((self.planned + 1, limit))
            self._write(f"{OURS}/limits/{known[-1][0]}-{limit}", b"")
        return Limits(known)

    def check(self, topology: Topology) -> None:
        """Whether the checkpoint is this topology's, and of views that were there from the start.

        Raises CannotRun.
        """
        views = sorted(topology.views)
        text = self._read(f"{OURS}/topology")
        if text is None:
            if self.planned >= 0:
                raise CannotRun(
                    f"checkpoint {self.folder!r} is another query's; name a folder of its own"
                )
            noted = {"topology": topology.name, "views": views}
            self._write(f"{OURS}/topology.new", orjson.dumps(noted))
            new, name = (self._path(self.folder, f"{OURS}/topology{end}") for end in (".new", ""))
            self._files.rename(new, name)
            return
        noted = orjson.loads(text)
        if noted["topology"] != topology.name:
            raise CannotRun(
                f"checkpoint {self.folder!r} is topology {noted['topology']!r}'s, not "
                f"{topology.name!r}'s; name a folder of its own"
            )
        known = self._known(noted)
        for view in sorted(set(views) - known):
            state = "was taken out before" if view in noted["views"] else "is new"
            raise CannotRun(
                f"view {view!r} {state}, and the query has read past its beginning: on Spark a "
                "view starts with the query; run it in a topology of its own, or start with a new "
                "checkpoint folder, which reads all topics from the start"
            )

    def note_removed(self, topology: Topology) -> None:
        """Note views that were taken out: a batch that is about to run goes by without them."""
        text = self._read(f"{OURS}/topology")
        assert text is not None, "it is checked before a batch runs"
        for view in self._known(orjson.loads(text)).difference(topology.views):
            # An empty file is never half written.
            self._write(f"{OURS}/removed/{view}", b"")

    def _known(self, noted: dict[str, Any]) -> set[str]:
        """The views that were there from the start, and have missed nothing since."""
        return set(noted["views"]).difference(self._names(f"{OURS}/removed"))

    def counts(self) -> tuple[int, dict[str, dict[str, int]], int]:
        """(the batch that they were noted with, -1 if none were; the counts; the next turn)."""
        found: list[tuple[int, dict[str, dict[str, int]], int]] = [(-1, {}, 0)]
        for turn in range(2):
            # One of the two may be half written, by a driver that was killed.
            try:
                text = self._read(f"{OURS}/counts-{turn}")
                if text is not None:
                    batch, counts = orjson.loads(text)
                    found.append((batch, counts, turn + 1))
            except orjson.JSONDecodeError:
                continue
        return max(found, key=lambda each: each[0])

    def note_counts(self, batch: int, turn: int, counts: dict[str, dict[str, int]]) -> None:
        """Note the counts behind a batch. turn: of two files the older one is written over."""
        self._write(f"{OURS}/counts-{turn % 2}", orjson.dumps((batch, counts)))

    def _read(self, name: str) -> str | None:
        path = self._path(self.folder, name)
        if not self._files.exists(path):
            return None
        stream = self._files.open(path)
        try:
            return str(self._text(stream, "UTF-8"))
        finally:
            stream.close()

    def _write(self, name: str, content: bytes) -> None:
        stream = self._files.create(self._path(self.folder, name), True)
        try:
            stream.write(bytearray(content))
        finally:
            stream.close()

    def _last(self, folder: str) -> int:
        return max((int(name) for name in self._names(folder) if name.isdigit()), default=-1)

    def _names(self, folder: str) -> list[str]:
        path = self._path(self.folder, folder)
        if not self._files.exists(path):
            return []
        return [status.getPath().getName() for status in self._files.listStatus(path)]


class Limits:
    """How many records a batch had at most, by its number."""

    def __init__(self, known: list[tuple[int, int]]) -> None:
        self._known = known

    def of(self, batch: int) -> int:
        """The limit that a batch was planned with."""
        return next(limit for first, limit in reversed(self._known) if first <= batch)
