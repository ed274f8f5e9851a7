"""Read stores of all kinds, looked at from outside while others write them."""

import re
import sqlite3
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, Protocol

import orjson
import psycopg
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession


class Store(Protocol):
    """A read store at `url`."""

    url: str

    def select(self, sql: str) -> list[Any]:
        """The rows that a statement finds, none where there is no such table."""
        ...

    def shadows(self) -> set[str]:
        """The names of the shadows that there are."""
        ...

    def forget_claims(self) -> None:
        """Let the claims of processes that died be as old as they would be in a while."""
        ...


class SqliteStore:
    def __init__(self, folder: Path) -> None:
        self._file = folder / "read.db"
        self.url = f"sqlite:///{self._file}"

    def select(self, sql: str) -> list[Any]:
        if self._file.exists():
            with (
                suppress(sqlite3.OperationalError),
                closing(sqlite3.connect(self._file, timeout=60)) as connection,
            ):
                return connection.execute(sql).fetchall()
        return []

    def shadows(self) -> set[str]:
        return {shadow for (shadow,) in self.select("SELECT shadow FROM _shadows")}

    def forget_claims(self) -> None:
        with closing(sqlite3.connect(self._file, timeout=30)) as connection, connection:
            connection.execute("UPDATE _claims SET until = 0")


class PostgresStore:
    def __init__(self, url: str) -> None:
        self.url = url

    def select(self, sql: str) -> list[Any]:
        with suppress(psycopg.errors.UndefinedTable), psycopg.connect(self.url) as connection:
            return connection.execute(sql.encode()).fetchall()
        return []

    def shadows(self) -> set[str]:
        return {shadow for (shadow,) in self.select("SELECT shadow FROM _shadows")}

    def forget_claims(self) -> None:
        with psycopg.connect(self.url) as connection:
            connection.execute("UPDATE _claims SET until = 0")


class DeltaStore:
    def __init__(self, folder: Path, spark: SparkSession) -> None:
        self._folder, self._spark = folder / "delta", spark
        self.url = f"delta:///{self._folder}"

    def select(self, sql: str) -> list[Any]:
        named = re.sub(r"FROM (\w+)", rf"FROM delta.`{self._folder}/\1`", sql)
        with suppress(AnalysisException):
            return [tuple(row) for row in self._spark.sql(named).collect()]
        return []

    def shadows(self) -> set[str]:
        names = (path.name.rpartition("__") for path in self._folder.iterdir())
        return {shadow for base, bars, shadow in names if base and bars}

    def forget_claims(self) -> None:
        last = max((self._folder / "_claims").glob("*.json"))
        claims = orjson.loads(last.read_bytes())
        anew = {name: (owner, 0, shadow) for name, (owner, _, shadow) in claims.items()}
        last.with_name(f"{int(last.stem) + 1:020}.json").write_bytes(orjson.dumps(anew))
