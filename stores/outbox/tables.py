"""The tables of a message log, in SQLite and PostgreSQL.

`<log>_messages` has the messages, `<log>_streams` the last sequence of every stream, `<log>_void`
the sequences that were declared void, and `<log>_layout` the version of all this. In PostgreSQL a
message also has the id of its transaction, by which a reader finds what became visible behind it.
"""

import re
from typing import Any

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    Connection,
    Float,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
    exists,
    func,
    insert,
    inspect,
    literal,
    select,
    text,
)
from sqlalchemy.sql.elements import quoted_name
from sqlalchemy.types import UserDefinedType

from stores.db.advisory_locks import AdvisoryLock, lock_until_commit
from stores.db.dialect import begin_writing
from stores.db.missing_tables import create_missing
from stores.outbox.message import MessageLogError

LAYOUT = 1
DIALECTS = ("sqlite", "postgresql")

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,39}")

_ID = BigInteger().with_variant(Integer, "sqlite")  # SQLite counts up only what is INTEGER
_TEXT = Text().with_variant(Text(collation="C"), "postgresql")  # compared as bytes


class _Xid8(UserDefinedType[str]):
    """PostgreSQL's number of a transaction, which does not wrap around."""

    cache_ok = True

    def get_col_spec(self, **_: Any) -> str:
        return "xid8"


class MessageTables:
    """The tables of the log `name` for one dialect; names are checked, and quoted in `sql`."""

    def __init__(self, name: str, schema: str | None, dialect: str) -> None:
        self.name, self.schema = name, schema
        for what, given in (("name", name), ("schema", schema)):
            if given is not None and not _NAME.fullmatch(given):
                raise MessageLogError(
                    f"message log: its {what} {given!r} is not of up to 40 letters A-Z a-z, digits "
                    "and _; give it another one"
                )
        if dialect not in DIALECTS:
            raise MessageLogError(
                f"message log {name!r}: a database of the kind {dialect!r} cannot hold it; use "
                "SQLite or PostgreSQL"
            )
        if dialect == "sqlite" and schema is not None:
            raise MessageLogError(f"message log {name!r}: SQLite has no schemas; leave it out")
        self._dialect = dialect
        self._metadata = MetaData()
        self.messages = self._messages()
        self.streams = self._table(
            "streams",
            Column("topic", _TEXT, primary_key=True),
            Column("stream", _TEXT, primary_key=True),
            Column("last", BigInteger, nullable=False),
            sqlite_with_rowid=False,
            # Room in each page for the next version of a line: counters are changed all the time.
            postgresql_with={"fillfactor": 70},
        )
        self.void = self._table(
            "void",
            Column("topic", _TEXT, primary_key=True),
            Column("stream", _TEXT, primary_key=True),
            Column("first", BigInteger, primary_key=True),
            Column("last", BigInteger, primary_key=True),
            Column("reason", Text, nullable=False),
            Column("declared_at", Float(53), nullable=False),
            CheckConstraint(text('"first" >= 1 AND "last" >= "first"')),
        )
        self.layout = self._table("layout", Column("version", Integer, primary_key=True))

    def _table(self, word: str, *parts: Any, **options: Any) -> Table:
        name = quoted_name(f"{self.name}_{word}", quote=True)
        schema = self.schema and quoted_name(self.schema, quote=True)
        return Table(name, self._metadata, *parts, schema=schema, **options)

    def _messages(self) -> Table:
        columns: list[Any] = [
            Column("id", _ID, primary_key=True, autoincrement=True),
            Column("topic", _TEXT, nullable=False),
            Column("stream", _TEXT, nullable=False),
            Column("sequence", BigInteger, nullable=False),
            Column("kind", Text),
            Column("content", LargeBinary, nullable=False),
            Column("headers", Text),
            Column("captured_at", Float(53), nullable=False),
            UniqueConstraint("topic", "stream", "sequence", name=f"{self.name}_messages_of_stream"),
        ]
        if self._dialect == "postgresql":
            now = func.pg_current_xact_id()
            columns.append(Column("xact", _Xid8, nullable=False, server_default=now))
            columns.append(Index(f"{self.name}_messages_xact", "xact"))
        return self._table("messages", *columns, sqlite_autoincrement=True)

    def sql(self, table: Table) -> str:
        """The table's name for a statement."""
        own = f'"{table.name}"'
        return f'"{self.schema}".{own}' if self.schema else own

    def create(self, connection: Connection) -> None:
        """Make what is missing, in the caller's transaction. Raises MessageLogError."""
        if not self._is_complete(connection):
            # Before any table: outside of a transaction SQLite commits each of them by itself.
            if not _is_autocommit(connection):
                begin_writing(connection)
            lock_until_commit(connection, AdvisoryLock.MESSAGE_LOG)
        has_layout = self._has_layout(connection)
        create_missing(connection, self._metadata, AdvisoryLock.MESSAGE_LOG)
        if not has_layout:
            line = select(literal(LAYOUT)).where(~exists(select(self.layout)))
            connection.execute(insert(self.layout).from_select(["version"], line))
            self._has_layout(connection)

    def _is_complete(self, connection: Connection) -> bool:
        """Whether all tables are there, and the layout's line. Raises MessageLogError."""
        if not self._has_layout(connection):
            return False
        found = inspect(connection)
        tables = self._metadata.sorted_tables
        return all(found.has_table(table.name, table.schema) for table in tables)

    def _has_layout(self, connection: Connection) -> bool:
        """Whether its line is there. Raises MessageLogError if it is another version's."""
        if not inspect(connection).has_table(str(self.layout.name), self.schema):
            return False
        found = connection.execute(select(self.layout.c.version)).scalar()
        if found not in (None, LAYOUT):
            raise MessageLogError(
                f"message log {self.name!r}: its tables have layout {found}, this version works "
                f"with {LAYOUT}; use the version that made them, or another name for a new log"
            )
        return found is not None


def _is_autocommit(connection: Connection) -> bool:
    """Whether nobody would end a transaction that is begun on it: SQLite, asked for by the caller.

    It has run a statement by now; so an engine that begins transactions itself has begun one.
    """
    if connection.dialect.name != "sqlite":
        return False
    driver: Any = connection.connection.driver_connection
    alone = driver.isolation_level is None or getattr(driver, "autocommit", None) is True
    return alone and not driver.in_transaction
