"""The Delta tables of a read store: their folders, their columns, and commits with a version."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, lit
from pyspark.sql.types import StructType

from stores.sinks.columns import Kind
from stores.sinks.delta.catalog import declared, is_plain
from stores.sinks.delta.files import HadoopFiles
from stores.sinks.delta.merge import APP, THERE, behind_sql, insert_sql, merge_sql, quoted
from stores.sinks.delta.rows import UPSERT, MergePlan, source
from stores.sinks.delta.sessions import Sessions
from stores.sinks.row_changes import TableChanges
from stores.sinks.schema import TableState

_COMMIT = re.compile(r"\d{20}\.json")
_FIRST = f"{0:020}.json"
_LOOKED_THROUGH = 5
"""Commits that are looked through for one of ours; others may compact or alter a table."""
_CHECK = "delta.constraints."
"""How the property of a table begins that says a CHECK constraint."""
_MERGES = 10
"""How many batches of a table have to find no row that is there before an INSERT is tried again."""


class FoundTable(NamedTuple):
    """A Delta table as it is. mapped: whether its files have other names for the columns."""

    schema: StructType
    mapped: bool


class DeltaTables:
    """The tables in a folder, by their names there (`shadow_name`)."""

    def __init__(self, spark: SparkSession, files: HadoopFiles) -> None:
        self.spark = spark
        self._sessions = Sessions(spark)
        self._spark = self._sessions.merging
        self._files = files
        self._views = 0
        self._merges: dict[str, int] = {}

    def names(self) -> list[str]:
        """The folders that may be tables."""
        return [name for name in self._files.names() if name != "_journal"]

    def exists(self, name: str) -> bool:
        """Whether there is such a table, and not only the folder of one that was half made."""
        return any(map(_COMMIT.fullmatch, self._files.names(f"{name}/_delta_log")))

    def look(self, name: str) -> FoundTable | None:
        """A table as it is now, None if there is none."""
        snapshot = self._snapshot(name)
        if snapshot is None:
            return None
        metadata = snapshot.metadata()
        return FoundTable(
            StructType.fromJson(json.loads(metadata.schemaString())),
            metadata.configuration().get("delta.columnMapping.mode").isDefined(),
        )

    def version(self, name: str, app: str = APP) -> int:
        """The version of the last commit of ours as `app`, -1 if there is none."""
        # The table's whole state would have it as well, but is a query.
        commits = [n for n in self._files.names(f"{name}/_delta_log") if _COMMIT.fullmatch(n)]
        for commit in reversed(commits[-_LOOKED_THROUGH:]):
            for line in self._files.read(f"{name}/_delta_log/{commit}").splitlines():
                if line.startswith(b'{"txn"'):
                    made = json.loads(line)["txn"]
                    if made["appId"] == app:
                        return int(made["version"])
        if len(commits) <= _LOOKED_THROUGH and commits[:1] in ([], [_FIRST]):
            return -1
        snapshot = self._snapshot(name)
        version = None if snapshot is None else snapshot.transactions().get(app)
        return int(version.get()) if version is not None and version.isDefined() else -1

    def _snapshot(self, name: str) -> Any:
        jvm: Any = self._spark._jvm
        delta = jvm.org.apache.spark.sql.delta.DeltaLog
        none = jvm.scala.Option.empty()
        log = delta.forTable(self._spark._jsparkSession, self._files.path(name))
        snapshot = log.update(False, none, none)
        return None if snapshot.version() < 0 else snapshot

    def create(self, name: str, table: TableState) -> None:
        """Make a table with all its columns."""
        key = [
            declared(column, kind, number)
            for number, (column, kind) in enumerate(table.key.items(), 1)
        ]
        columns = [declared(column, kind) for column, kind in table.columns.items()]
        names = (*table.key, *table.columns)
        options = "" if all(map(is_plain, names)) else f"TBLPROPERTIES ({_MAPPED})"
        if not self.exists(name):
            self._files.delete_drafts(name)
        self._spark.sql(
            f"CREATE TABLE {self.at(name)} ({', '.join([*key, *columns])}) USING delta {options}"
        )
        self._merges[name] = 0

    def add_columns(self, name: str, columns: Mapping[str, Kind]) -> None:
        """Add columns to a table."""
        if not all(map(is_plain, columns)):
            self._map_names(name)
        added = ", ".join(declared(column, kind) for column, kind in columns.items())
        self._spark.sql(f"ALTER TABLE {self.at(name)} ADD COLUMNS ({added})")

    def merge(self, name: str, table: TableState, rows: TableChanges, version: int) -> None:
        """Apply row changes in one commit that carries a version; see `run`."""
        self.merge_rows(name, table, *source(table, rows), version)

    def merge_rows(
        self, name: str, table: TableState, records: Any, plan: MergePlan, version: int
    ) -> None:
        """Apply the rows of an Arrow table or a data frame, as `source` makes them; see `merge`.

        It is an INSERT while a table only grows, as far as can be foreseen, and a MERGE otherwise.
        """
        types: dict[str, str] = {}
        if object in {*table.key.values(), *table.columns.values()}:
            found = self.look(name)
            types = {f.name: f.dataType.simpleString() for f in found.schema} if found else {}
        grows = not self._merges.get(name, 1) and plan.ops == {UPSERT} and not types
        if grows and self._inserted(name, table, records, plan, version):
            return
        with self._view(self._spark, records) as view:
            sql = merge_sql(self.at(name), view, table, plan, types)
            for done in self.run(sql, version):
                found_rows = done["num_updated_rows"] + done["num_deleted_rows"]
                self._merges[name] = (
                    _MERGES if found_rows else max(self._merges.get(name, 1) - 1, 0)
                )

    def _inserted(
        self, name: str, table: TableState, records: Any, plan: MergePlan, version: int
    ) -> bool:
        """Add rows that are all new, in one commit that carries a version; whether they are."""
        few = not isinstance(records, DataFrame)
        session = self._sessions.writing if few else self._spark
        with self._view(session, records) as view:
            try:
                self.run(insert_sql(self.at(name), view, table, plan, few=few), version, session)
            except (PySparkException, Py4JJavaError) as error:
                if THERE not in str(error):
                    raise
                self._merges[name] = _MERGES
                return False
        return True

    @contextmanager
    def _view(self, session: SparkSession, records: Any) -> Iterator[str]:
        """The name of the rows of an Arrow table in a session, or of a data frame of another."""
        self._views += 1
        view = f"sequitur_{self._views}"
        if isinstance(records, DataFrame):
            # The sinks of one process share these names.
            view = f"{view}_{id(self):x}"
            records.createOrReplaceGlobalTempView(view)
            try:
                yield f"global_temp.{view}"
            finally:
                session.catalog.dropGlobalTempView(view)
            return
        session.createDataFrame(records).createOrReplaceTempView(view)
        try:
            yield view
        finally:
            session.catalog.dropTempView(view)

    def look_ahead(self, names: Iterable[str]) -> None:
        """Begin to find out what state these tables are in, which the next commit has to know."""
        self._sessions.look_ahead(self._files.path(name) for name in names)

    def wait(self) -> None:
        """Let what was begun to be found out be known."""
        self._sessions.wait()

    def replace(self, name: str, rows: Any, version: int) -> None:
        """Let a table have the rows of an Arrow table and no others, in one commit; see `run`."""
        frame = self._sessions.writing.createDataFrame(rows)
        writer = frame.write.format("delta").mode("overwrite")
        writer.options(**_commit(version)).save(self._files.path(name))

    def write(self, name: str, rows: Any, version: int, app: str) -> None:
        """Let a table, which need not be there, have the rows of an Arrow table and no others.

        Its commit belongs to no batch: its version is one of `app`. See `run`.
        """
        frame = self._sessions.writing.createDataFrame(rows)
        writer = frame.write.format("delta").mode("overwrite")
        writer.options(**_commit(version, app)).save(self._files.path(name))

    def delete(self, name: str, wanted: Any) -> None:
        """Delete the rows that have the columns of a row of an Arrow table.

        Its commit carries no version: it belongs to no batch.
        """
        same = " AND ".join(f"t.{quoted(c)} = s.{quoted(c)}" for c in wanted.column_names)
        with self._view(self._spark, wanted) as view:
            self._spark.sql(
                f"MERGE INTO {self.at(name)} AS t USING {view} AS s ON {same} "
                "WHEN MATCHED THEN DELETE"
            ).collect()

    def frame(self, name: str) -> DataFrame:
        """All rows of a table."""
        return self._spark.read.format("delta").load(self._files.path(name))

    def matching(self, name: str, wanted: Any) -> DataFrame:
        """The rows of a table that have the columns of a row of an Arrow table."""
        frame = self._spark.createDataFrame(wanted)
        return self.frame(name).join(frame, wanted.column_names, "inner")

    def behind(self, name: str | None, streams: DataFrame, limit: int) -> list[Any]:
        """The streams that a table has further than where a batch begins, or that came twice.

        name: None where there is no table. streams: as `STAGED_STREAMS`. Each row: its key, the
        epoch and sequence that the table has, and how often it came.
        """
        with self._view(self._spark, streams) as view:
            return self.query(behind_sql(None if name is None else self.at(name), view, limit))

    def broken_check(self, name: str, by: str) -> str | None:
        """A CHECK constraint of a table that some rows of another one break; None if there is none.

        A row breaks it where it is not true; a column that the rows do not have is null.
        """
        metadata = json.loads(self._snapshot(name).metadata().json())["metaData"]
        properties = metadata["configuration"].items()
        checks = {key: text for key, text in properties if key.lower().startswith(_CHECK)}
        if not checks:
            return None
        rows = self.frame(by)
        there = set(map(str.lower, rows.columns))
        missing = [c for c in self.frame(name).schema if c.name.lower() not in there]
        rows = rows.withColumns({c.name: lit(None).cast(c.dataType) for c in missing})
        for key, text in checks.items():
            if not rows.where(f"({text}) IS NOT TRUE").isEmpty():
                return f"{key[len(_CHECK) :]} ({text})"
        return None

    def copy(self, name: str, to: str, version: int) -> None:
        """Make a table the same as another one, in one commit that carries a version."""
        found, there = self.look(name), self.look(to)
        assert found is not None, name
        if found.mapped and there is not None and not there.mapped:
            self._map_names(to)
        comments = {field.name: field.metadata.get("comment") for field in found.schema}
        columns = [
            col(quoted(column)).alias(column, metadata={"comment": comment} if comment else {})
            for column, comment in comments.items()
        ]
        writer = self.frame(name).select(*columns).write.format("delta").mode("overwrite")
        if found.mapped and there is None:
            writer = writer.option("delta.columnMapping.mode", "name")
        writer.options(overwriteSchema="true", **_commit(version)).save(self._files.path(to))

    def drop(self, name: str) -> None:
        """Delete a table with its folder."""
        self._sessions.wait()
        self._files.delete(name)
        self._spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()  # type: ignore[union-attr]

    def query(self, sql: str) -> list[Any]:
        """The rows that a statement finds."""
        return self._spark.sql(sql).collect()

    def at(self, name: str) -> str:
        """A table as statements name it."""
        return f"delta.{quoted(self._files.path(name))}"

    def run(self, sql: str, version: int, session: SparkSession | None = None) -> list[Any]:
        """Run a statement that writes a table, in one commit that carries a version.

        A table that has a commit of that version, or of a later one, stays as it is. Returns what
        the statement says of itself.
        """
        session = session or self._spark
        settings = {
            "spark.databricks.delta.write.txnAppId": APP,
            "spark.databricks.delta.write.txnVersion": str(version),
        }
        for key, value in settings.items():
            session.conf.set(key, value)
        try:
            return session.sql(sql).collect()
        finally:
            for key in settings:
                session.conf.unset(key)

    def _map_names(self, name: str) -> None:
        self._spark.sql(f"ALTER TABLE {self.at(name)} SET TBLPROPERTIES ({_MAPPED})")


_MAPPED = "'delta.columnMapping.mode' = 'name'"


def _commit(version: int, app: str = APP) -> dict[str, str]:
    """The options of a write in one commit that carries a version."""
    return {"txnAppId": app, "txnVersion": str(version)}
