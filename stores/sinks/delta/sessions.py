"""The Spark sessions that a Delta Lake read store uses, with settings that are nobody else's."""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from threading import Thread
from typing import Any

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.sql import SparkSession

ROWS_A_FILE = 50_000
"""Of a batch that is appended: as many as one core writes in a blink."""

_SETTINGS = {
    "spark.databricks.delta.snapshotPartitions": "1",
    # The rows come from this process, or are folded by pure code from records that do not change:
    # they are the same however often they are looked at, also where Spark has to make them again.
    "spark.databricks.delta.merge.materializeSource": "none",
    "spark.databricks.delta.merge.failSourceCachedAfterMaterialization": "false",
}
_WRITING = {
    **_SETTINGS,
    # Rows go to the tasks as they come from Arrow, rather than as a part of the plan.
    "spark.sql.execution.arrow.localRelationThreshold": "0",
    "spark.sql.execution.arrow.maxRecordsPerBatch": str(ROWS_A_FILE),
    # Nothing is shuffled that there would be something to adapt to; and to compile code for a
    # statement takes longer than that code saves of a batch.
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
}
_LOOKING = {
    **_SETTINGS,
    # A log is some ten rows, for which it takes longer to compile code than to do without.
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.shuffle.partitions": "1",
}


class Sessions:
    """merging: as `spark` is configured, for statements of any size. writing: for those that only
    add rows."""

    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark
        self.merging = _like(spark, _SETTINGS)
        self.writing = _like(spark, _WRITING)
        self._looking = _like(spark, _LOOKING)
        self._ahead: Thread | None = None

    def look_ahead(self, folders: Iterable[str]) -> None:
        """Begin to work out in the background what state tables are in, one after the other.

        A commit that carries a version has to know it, and it takes as long as to write the rows.
        One that is made meanwhile waits for its table only, within Delta Lake.
        """
        self.wait()
        self._ahead = Thread(target=self._look, args=(list(folders),), daemon=True)
        self._ahead.start()

    def wait(self) -> None:
        """Let what was begun end."""
        if self._ahead is not None:
            self._ahead.join()
            self._ahead = None

    def _look(self, folders: Iterable[str]) -> None:
        # What fails here fails again, with the reason, where the state is needed.
        with suppress(Py4JError, ConnectionError):
            jvm: Any = self._looking._jvm
            session = self._looking._jsparkSession
            jvm.org.apache.spark.sql.classic.SparkSession.setActiveSession(session)
            none = jvm.scala.Option.empty()
            for folder in folders:
                log = jvm.org.apache.spark.sql.delta.DeltaLog.forTable(session, folder)
                log.update(False, none, none).transactions()


def _like(spark: SparkSession, settings: Mapping[str, str]) -> SparkSession:
    session = spark.newSession()
    for name, value in settings.items():
        session.conf.set(name, value)
    return session
