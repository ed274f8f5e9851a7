"""A schema of a PostgreSQL database as a read store's database: the first one of the search path.

Many rows go by COPY into a temporary table, from where one statement writes them. PostgreSQL takes
no NUL in a text; in the sink's own tables a private character stands for it.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, date, datetime
from decimal import Decimal
from itertools import count
from typing import Any
from uuid import UUID

import orjson
import psycopg
import psycopg.sql
from psycopg.errors import (
    CardinalityViolation,
    DataError,
    DatatypeMismatch,
    DuplicateColumn,
    DuplicateObject,
    DuplicateTable,
    GeneratedAlways,
    IntegrityError,
    InvalidTableDefinition,
    ProgramLimitExceeded,
    TooManyColumns,
    WrongObjectType,
)
from psycopg.types.json import set_json_loads

from stores.db.advisory_locks import ReadStoreLock
from stores.db.urls import KEPT_ALIVE, said, without_password
from stores.sinks.columns import (
    INT_MAX,
    INT_MIN,
    JSON,
    JsonArray,
    JsonObject,
    Kind,
    Number,
    as_json,
    noted,
    noted_kind,
)
from stores.sinks.decoding import Mark, Stream
from stores.sinks.errors import DataRefused, StoreError
from stores.sinks.limits import POSTGRES_LIMITS
from stores.sinks.schema import TableState
from stores.sinks.sql.database import TARGET, as_they_are, listed, quoted
from stores.sinks.sql.postgres_values import read_text, with_points, written_text

FEW = 50
"""Up to so many rows are written one by one, which is quicker for them than by COPY."""

_CONNECT = {
    "connect_timeout": 10,
    "application_name": "sequitur",
    "tcp_user_timeout": 30_000,
    **KEPT_ALIVE,
}
# A writer that is stopped in the middle of a batch, and one that hangs, hold nobody up for ever.
_OPTIONS = "-c lock_timeout=60s -c idle_in_transaction_session_timeout=120s"
_HERE = "SELECT oid FROM pg_namespace WHERE nspname = current_schema()"
_KINDS: dict[str, Kind] = {
    **dict.fromkeys(("bigint", "integer", "smallint"), int),
    **dict.fromkeys(("double precision", "real"), float),
    **dict.fromkeys(("text", "character varying", "character", "citext"), str),
    "boolean": bool,
    "numeric": Number,
}
_REFUSED = (
    DataError, IntegrityError, ProgramLimitExceeded,
    # Keys that are one to the database; a column that is not to be set.
    CardinalityViolation, GeneratedAlways,
    # What a trigger does with a value, for which there is another type.
    DatatypeMismatch,
)  # fmt: skip
_OF_TRIGGERS = frozenset({"02", "09", "20", "27", "2F", "38", "39", "44", "P0"})
"""Classes of errors that only a trigger ends with: what it raises, does not find or leaves open."""
_NOT_TO_BE = (
    # An index, a type or another column has the name, or there are too many columns.
    DuplicateColumn, DuplicateObject, DuplicateTable, TooManyColumns, InvalidTableDefinition,
    # Somebody's table takes no column, or its children have another one so called.
    WrongObjectType, DatatypeMismatch,
)  # fmt: skip
"""What is said of a table or a column that there cannot be."""
_MARK = "sequitur: "
"""How the comment of a column begins whose kind is noted."""


class PostgresDatabase:
    """A `Database` at `postgresql://…`; what follows a `?` goes to the driver."""

    types: Mapping[Kind, str] = {
        int: "BIGINT",
        float: "DOUBLE PRECISION",
        str: "TEXT",
        bool: "BOOLEAN",
        Number: "NUMERIC",
        Decimal: "NUMERIC({}, {})",
        datetime: "TIMESTAMPTZ",
        date: "DATE",
        bytes: "BYTEA",
        JsonObject: "JSONB",
        JsonArray: "JSONB",
    }
    limits = POSTGRES_LIMITS
    integer = "BIGINT"
    blob = "BYTEA"
    table_end = ""

    def __init__(self, url: str) -> None:
        self._url = url
        self._name = without_password(url)
        self.columns: list[tuple[Any, ...]] = []
        """All columns of all tables with their very types, as `tables` found them last."""
        self._ruled: dict[str, list[str]] = {}
        """Table → the columns without a default that it has rules for."""
        self._stages: dict[tuple[str, tuple[str, ...]], str] = {}
        """Temporary tables with the types that columns had then."""
        self._stage_numbers = count()
        with self.errors():
            self._connection = self._connect()
        if self._connection.info.encoding != "utf-8":
            self.close()
            raise StoreError(f"read store {self._name}: its database is not in UTF-8; make one so")

    def _connect(self) -> psycopg.Connection[tuple[Any, ...]]:
        given = psycopg.conninfo.conninfo_to_dict(self._url)
        more = {**_CONNECT, "client_encoding": "utf8"}
        settings: dict[str, Any] = {n: v for n, v in more.items() if n not in given}
        settings["options"] = f"{_OPTIONS} {given.get('options') or ''}"  # the last one wins
        return psycopg.connect(self._url, autocommit=True, **settings)

    @contextmanager
    def errors(self) -> Iterator[None]:
        try:
            yield
        except psycopg.Error as error:
            if isinstance(error, _REFUSED) or _of_a_trigger(error):
                raise DataRefused(f"read store {self._name}: {_said(error)}") from error
            raise StoreError(f"read store {self._name}: {said(error, self._url)}") from error

    @contextmanager
    def transaction(self, shadow: str | None, *, alone: bool = False) -> Iterator[None]:
        connection = self._connection
        before = dict(self._stages), self.columns
        try:
            with connection.transaction():
                # The rest sees what others committed up to here.
                shared = "" if alone else "_shared"
                lock = f"SELECT pg_advisory_xact_lock{shared}(%s, hashtext(current_schema()))"
                connection.execute(lock, (int(ReadStoreLock.STORE),))
                lock = "SELECT pg_advisory_xact_lock(%s, hashtext(current_schema() || '/' || %s))"
                connection.execute(lock, (int(ReadStoreLock.SHADOW), shadow or ""))
                yield
        except BaseException:
            self._stages, self.columns = before  # those that were made meanwhile are gone
            raise

    @contextmanager
    def staging(self) -> Iterator[None]:
        """A transaction that holds nobody up, and that no crash of the server needs to outlive."""
        with self._connection.transaction():
            self._connection.execute("SET LOCAL synchronous_commit TO off")
            yield

    @contextmanager
    def alone_with(self, writer: int) -> Iterator[bool]:
        """A transaction that waits for nobody, and whether no other connection is this one; see
        `hold_stages`."""
        with self._connection.transaction():
            self._connection.execute("SET LOCAL lock_timeout TO '1s'")
            lock = "SELECT pg_try_advisory_xact_lock(?, ?)"
            ((free,),) = self.query(lock, [int(ReadStoreLock.STAGES), writer])
            yield bool(free)

    def layout(self) -> int | None:
        sql = f"SELECT 1 FROM pg_class WHERE relname = '_layout' AND relnamespace = ({_HERE})"
        found = self.query("SELECT number FROM _layout") if self.query(sql) else []
        return int(found[0][0]) if found else None

    def set_layout(self, number: int) -> None:
        self.run("CREATE TABLE IF NOT EXISTS _layout (number BIGINT)")
        self.run("DELETE FROM _layout")
        self.query("INSERT INTO _layout VALUES (?)", [number])

    def query(self, sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        return [tuple(map(read_text, row)) for row in self._catalog(sql, parameters)]

    def _catalog(self, sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """As `query`, of names in the database's own catalogue, where they are as they are."""
        # Without parameters the driver takes any text as it is.
        made = _statement(_PARAMETER.sub(_marked_parameter, sql) if parameters else sql)
        cursor = self._connection.execute(made, parameters or None)
        return [] if cursor.description is None else cursor.fetchall()

    def run(self, sql: str) -> None:
        self._connection.execute(_statement(sql))

    def define(self, sql: str) -> None:
        try:
            self.run(sql)
        except _NOT_TO_BE as error:
            raise DataRefused(f"read store {self._name}: {_said(error)}") from error

    def tables(self) -> tuple[list[TableState], list[str]]:
        others = [
            name
            for (name,) in self._catalog(
                f"SELECT relname::text FROM pg_class WHERE relnamespace = ({_HERE}) "
                "AND relkind NOT IN ('r', 'p')"
            )
            if not name.startswith("_")
        ]
        tables: dict[str, tuple[dict[str, Kind], dict[str, Kind]]] = {}
        self._ruled = defaultdict(list)
        found = [row for row in self._catalog(_COLUMNS) if not row[0].startswith("_")]
        if found != self.columns:
            if self.columns:
                self._forget_types()
            self.columns = found
        for name, column, sql_type, at, comment, _, _, ruled in found:
            key, columns = tables.setdefault(name, ({}, {}))
            kind = _marked(comment or "") or _KINDS.get(sql_type, object)
            if at is None:
                columns[column] = kind
                if ruled:
                    self._ruled[name].append(column)
            else:
                key[column] = str if kind is object else kind
        return [TableState(name, *both) for name, both in tables.items()], others

    def _forget_types(self) -> None:
        """Somebody may have made a column another one: no value must go by its former type."""
        # The driver forgets what it has prepared when a statement that is new to it drops a table.
        names = [*self._stages.values(), f"_stage_{next(self._stage_numbers)}"]
        self.run(f"DROP TABLE IF EXISTS {', '.join(f'pg_temp.{name}' for name in names)}")
        self._stages.clear()

    def read_marks(self, table: str, streams: Iterable[Stream]) -> dict[Stream, Mark]:
        by_view: dict[tuple[str, str], dict[str, str]] = defaultdict(dict)
        for topic, view, stream in streams:
            by_view[topic, view][written_text(stream)] = stream
        sql = _statement(
            f"SELECT stream, epoch, sequence FROM {quoted(table)} "
            "WHERE topic = %s AND view = %s AND stream = ANY(%s)"
        )
        found: dict[Stream, Mark] = {}
        for (topic, view), names in by_view.items():
            rows = self._connection.execute(sql, (topic, written_text(view), list(names)))
            for stream, epoch, sequence in rows:
                found[topic, view, names[stream]] = epoch, sequence
        return found

    def upsert(
        self, table: str, key: Sequence[str], columns: Sequence[str], rows: list[tuple[Any, ...]]
    ) -> None:
        if not rows:
            return
        if table.startswith("_"):
            rows = [tuple(map(written_text, row)) for row in rows]
        names = (*key, *columns)
        if len(rows) > FEW or self._kept(table, columns):
            stage = self._copied(table, names, rows)
            self.upsert_from(stage, table, key, columns)
            self.run(f"TRUNCATE {stage}")
        else:
            insert, conflict = _upsert(table, key, columns)
            self._each(f"{insert} VALUES (", len(names), f") {conflict}", rows)

    def upsert_from(
        self, stage: str, table: str, key: Sequence[str], columns: Sequence[str]
    ) -> None:
        """Upsert the rows of another table, in which no key comes twice."""
        kept = self._kept(table, columns)
        insert, conflict = _upsert(table, key, columns, kept)
        keys = [f"s.{quoted(name)}" for name in key]
        values = [listed((*key, *columns)), *as_they_are(table, key, keys, kept)]
        self.run(f"{insert} SELECT {', '.join(values)} FROM {stage} AS s {conflict}")

    def _kept(self, table: str, columns: Sequence[str]) -> list[str]:
        """The columns with rules that an upsert of these columns leaves as they are."""
        return [column for column in self._ruled.get(table, ()) if column not in columns]

    def delete_from(self, stage: str, table: str, key: Sequence[str]) -> None:
        """Delete the rows whose keys are in another table."""
        where = " AND ".join(f"t.{name} = s.{name}" for name in map(quoted, key))
        self.run(f"DELETE FROM {quoted(table)} AS t USING {stage} AS s WHERE {where}")

    def delete(self, table: str, key: Sequence[str], keys: list[tuple[Any, ...]]) -> None:
        if len(keys) > FEW:
            stage = self._copied(table, tuple(key), keys)
            self.delete_from(stage, table, key)
            self.run(f"TRUNCATE {stage}")
        else:
            name = f"({listed(key)})"
            self._each(f"DELETE FROM {quoted(table)} WHERE {name} = (", len(key), ")", keys)

    def _each(self, before: str, values: int, after: str, rows: list[tuple[Any, ...]]) -> None:
        """Run a statement for every row, whose values go in the middle."""
        before, after = (part.replace("%", "%%") for part in (before, after))
        sql = _statement(before + ", ".join(["%s"] * values) + after)
        # A number is cast to a column's type without loss only when it comes as text.
        texts = [tuple(repr(v) if v.__class__ is float else v for v in row) for row in rows]
        with self._connection.cursor() as cursor:
            cursor.executemany(sql, texts)

    def _copied(self, table: str, names: tuple[str, ...], rows: list[tuple[Any, ...]]) -> str:
        """The name of a temporary table that holds the rows."""
        stage = self._stages.get((table, names))
        if stage is None:
            stage = self._stages[table, names] = f"_stage_{next(self._stage_numbers)}"
            self.run(
                f"CREATE TEMPORARY TABLE {stage} ON COMMIT DELETE ROWS AS "
                f"SELECT {listed(names)} FROM {quoted(table)} WITH NO DATA"
            )
        self.copy_in(stage, rows)
        return stage

    def copy_in(self, stage: str, rows: Iterable[tuple[Any, ...]]) -> None:
        """Add rows to a table that has just their columns."""
        sql = _statement(f"COPY {stage} FROM STDIN")
        with self._connection.cursor() as cursor, cursor.copy(sql) as copy:
            for row in rows:
                copy.write_row(row)

    def order_by(self, column: str, kind: Kind) -> str:
        # Also what has no collation, a UUID say, is ordered as its text.
        return quoted(column) + ('::text COLLATE "C"' if kind is str else "")

    @contextmanager
    def stream_rows(self, sql: str) -> Iterator[Iterable[tuple[Any, ...]]]:
        # A connection of its own, since this one may have a transaction meanwhile.
        with self._connect() as connection:
            connection.execute("SET TIME ZONE 'UTC'")  # in which Python holds all moments
            set_json_loads(orjson.loads, connection)
            with connection.transaction(), connection.cursor("rows") as cursor:
                cursor.itersize = 5_000
                yield cursor.execute(_statement(sql))

    def encoder(self, kind: Kind) -> Callable[[Any], Any] | None:
        return with_points if kind in JSON else _as_text if kind is object else None

    def note_kinds(self, table: str, columns: Mapping[str, Kind]) -> None:
        for column, kind in columns.items():
            if (note := noted(kind)) is not None:
                at = f"{quoted(table)}.{quoted(column)}"
                self.run(f"COMMENT ON COLUMN {at} IS '{_MARK}{note}'")

    def decoded(self, value: Any, kind: Kind) -> Any:
        if kind is datetime:
            return value.astimezone(UTC)
        if isinstance(value, UUID) or (kind is str and not isinstance(value, str)):
            return str(value)
        if kind is not Number or not isinstance(value, Decimal):
            return value
        whole = value.as_tuple().exponent == 0 and INT_MIN <= value <= INT_MAX
        return int(value) if whole else float(value)

    def swap(self, table: str, kept: str | None, new: str) -> None:
        # What has no predecessor belongs to whom the store's own tables do.
        self._own_as("_progress" if kept is None else table, new)
        if kept is not None:
            self._grant_as(table, new)
            self.run(f"ALTER TABLE {quoted(table)} RENAME TO {quoted(kept)}")
        self.run(f"ALTER TABLE {quoted(new)} RENAME TO {quoted(table)}")

    def _own_as(self, table: str, new: str) -> None:
        """Let a table belong to the owner of another one, or let that one read and write it."""
        right = "SET" if self._connection.info.server_version >= 160_000 else "MEMBER"
        for owner, may in self._catalog(_OWNER, [right, table, new]):
            if may:
                self.run(f"ALTER TABLE {quoted(new)} OWNER TO {owner}")
            else:
                self.run(f"GRANT ALL ON TABLE {quoted(new)} TO {owner}")

    def _grant_as(self, table: str, new: str) -> None:
        """Whoever may do something with a table may do it with another one, as far as it has the
        columns. Raises StoreError where it would be more."""
        secured = {name for (name,) in self._catalog(_SECURED)}
        if table in secured and new not in secured:
            raise StoreError(
                f"read store {self._name}: table {table!r} has row-level security and {new!r}, "
                "which is to take its place, has none, so that whoever may read it would see all "
                f"of its rows; enable it and make the policies for {new!r}, and switch again"
            )
        there = {column for (column,) in self._catalog(_COLUMN_NAMES, [new])}
        for privilege, role, grantable, column in self._catalog(_GRANTS, [table, table]):
            if column is None or column in there:
                of = "" if column is None else f" ({quoted(column)})"
                option = " WITH GRANT OPTION" if grantable else ""
                self.run(f"GRANT {privilege}{of} ON {quoted(new)} TO {role or 'PUBLIC'}{option}")

    def close(self) -> None:
        self._connection.close()


_COLUMNS = f"""
SELECT c.relname::text, a.attname::text, a.atttypid::regtype::text,
       array_position((i.indkey::int2[])[0:i.indnkeyatts - 1], a.attnum),
       col_description(c.oid, a.attnum), c.oid, a.atttypmod,
       NOT a.atthasdef AND a.attidentity = '' AND (a.attnotnull OR EXISTS (
           SELECT FROM pg_constraint AS k
           WHERE k.conrelid = c.oid AND k.contype = 'c' AND a.attnum = ANY (k.conkey)
       ))
FROM pg_class AS c
JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
LEFT JOIN pg_index AS i ON i.indrelid = c.oid AND i.indisprimary
WHERE c.relnamespace = ({_HERE}) AND c.relkind IN ('r', 'p')
ORDER BY 1, 4, a.attnum
"""
_GRANTS = f"""
SELECT acl.privilege_type, quote_ident(r.rolname), acl.is_grantable, NULL
FROM pg_class AS c, aclexplode(c.relacl) AS acl LEFT JOIN pg_roles AS r ON r.oid = acl.grantee
WHERE c.relnamespace = ({_HERE}) AND c.relname = ? AND acl.grantee <> c.relowner
UNION ALL
SELECT acl.privilege_type, quote_ident(r.rolname), acl.is_grantable, a.attname::text
FROM pg_class AS c JOIN pg_attribute AS a ON a.attrelid = c.oid AND NOT a.attisdropped,
     aclexplode(a.attacl) AS acl LEFT JOIN pg_roles AS r ON r.oid = acl.grantee
WHERE c.relnamespace = ({_HERE}) AND c.relname = ? AND acl.grantee <> c.relowner
"""
_OWNER = f"""
SELECT quote_ident(r.rolname), current_setting('is_superuser') = 'on' OR (
    pg_has_role(c.relowner, 'USAGE') AND pg_has_role(c.relowner, ?)
    AND has_schema_privilege(c.relowner, c.relnamespace, 'CREATE')
)
FROM pg_class AS c JOIN pg_roles AS r ON r.oid = c.relowner
JOIN pg_class AS n ON n.relnamespace = c.relnamespace AND n.relowner <> c.relowner
WHERE c.relnamespace = ({_HERE}) AND c.relname = ? AND n.relname = ?
"""
_COLUMN_NAMES = f"""
SELECT a.attname::text
FROM pg_class AS c JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attnum > 0
WHERE c.relnamespace = ({_HERE}) AND c.relname = ? AND NOT a.attisdropped
"""
_SECURED = f"""
SELECT relname::text FROM pg_class WHERE relnamespace = ({_HERE}) AND relrowsecurity
"""


_PARAMETER = re.compile(r""" "(?:[^"]|"")*" | '(?:[^']|'')*' | \? | % """, re.VERBOSE)


def _marked_parameter(found: re.Match[str]) -> str:
    """A parameter as the driver marks it; in a name or a text it is none."""
    return "%s" if found[0] == "?" else found[0].replace("%", "%%")


def _upsert(
    table: str, key: Sequence[str], columns: Sequence[str], kept: Sequence[str] = ()
) -> tuple[str, str]:
    """What stands in front of the rows of an upsert, and behind them. kept: columns that only a
    new row gets."""
    sets = ", ".join(f"{name} = excluded.{name}" for name in map(quoted, columns))
    return (
        f"INSERT INTO {quoted(table)} AS {TARGET} ({listed((*key, *columns, *kept))})",
        f"ON CONFLICT ({listed(key)}) DO {f'UPDATE SET {sets}' if sets else 'NOTHING'}",
    )


def _as_text(value: Any) -> str:
    """A value of a column whose type is somebody's own, which the database reads as text."""
    return value if isinstance(value, str) else as_json(value)


def _marked(comment: str) -> Kind | None:
    """The kind that the comment of a column says, if it says one."""
    return noted_kind(comment.removeprefix(_MARK)) if comment.startswith(_MARK) else None


def _statement(sql: str) -> psycopg.sql.SQL:
    """Text that was made here, with every name quoted, as the driver's types want it."""
    return psycopg.sql.SQL(sql)


def _of_a_trigger(error: psycopg.Error) -> bool:
    """Whether a trigger ended with it; so it did where its class is none of PostgreSQL's own."""
    kind = (error.sqlstate or "")[:2]
    try:
        psycopg.errors.lookup(f"{kind}000")
    except KeyError:
        return bool(kind)
    return kind in _OF_TRIGGERS


def _said(error: psycopg.Error) -> str:
    return str(error).strip() or error.__class__.__name__
