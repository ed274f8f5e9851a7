"""View-state tables in a SQL database, which all workers of a group may share.

All tables are kept in two: `sequitur_view_tables` has a line per group, view and partition with its
stamp and changelog offset, `sequitur_view_rows` the rows. The stamp is checked and changed in the
transaction that writes the rows, so a worker whose partition has moved changes nothing more; reads
look at it too, so that it does not take another worker's rows for its own.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol, TypeVar

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Engine,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
    bindparam,
    delete,
    select,
    update,
)
from sqlalchemy.exc import (
    DBAPIError,
    InterfaceError,
    OperationalError,
    SQLAlchemyError,
    TimeoutError,
)

from stores.db.advisory_locks import AdvisoryLock
from stores.db.data_errors import is_passing
from stores.db.missing_tables import create_missing
from stores.db.urls import said, without_password
from stores.view_state.fencing_token import FencingToken, unclaimed
from stores.view_state.table import TableError, TableUnavailable
from topology.model.partition_table import Row

PAGE = 500
"""Rows that a scan reads at a time."""

_NUMBER = BigInteger().with_variant(Integer, "sqlite")  # SQLite counts up only what is INTEGER
_METADATA = MetaData()
TABLES = Table(
    "sequitur_view_tables",
    _METADATA,
    Column("id", _NUMBER, primary_key=True, autoincrement=True),
    Column("consumer_group", Text, nullable=False),
    Column("view", Text, nullable=False),
    Column("partition", Integer, nullable=False),
    Column("stamp", Text),
    Column("next_offset", BigInteger),
    UniqueConstraint("consumer_group", "view", "partition"),
)
ROWS = Table(
    "sequitur_view_rows",
    _METADATA,
    Column("table_id", _NUMBER, primary_key=True, autoincrement=False),
    Column("key", LargeBinary, primary_key=True),
    Column("value", LargeBinary, nullable=False),
    sqlite_with_rowid=False,
)

_of_table = TABLES.c.id == bindparam("of")
_GET = (
    select(TABLES.c.stamp, ROWS.c.value)
    .select_from(
        TABLES.outerjoin(
            ROWS, (ROWS.c.table_id == TABLES.c.id) & (ROWS.c.key == bindparam("wanted"))
        )
    )
    .where(_of_table)
)
_SCAN = (
    select(ROWS.c.key, ROWS.c.value)
    .where(ROWS.c.table_id == bindparam("of"), ROWS.c.key < bindparam("end"))
    .order_by(ROWS.c.key)
    .limit(PAGE)
)
_SCAN_FROM = _SCAN.where(ROWS.c.key >= bindparam("first"))
_SCAN_AFTER = _SCAN.where(ROWS.c.key > bindparam("first"))
_STAMP = select(TABLES.c.stamp).where(_of_table)
_STAMP_IT = (
    update(TABLES)
    .where(_of_table, TABLES.c.stamp == bindparam("left"))
    .values(stamp=bindparam("new"), next_offset=bindparam("offset"))
)
_EMPTY = delete(ROWS).where(ROWS.c.table_id == bindparam("of"))

T = TypeVar("T")


class Dialect(Protocol):
    """What databases say differently."""

    remedy: str

    def insert(self, table: Table) -> Any:
        """The dialect's INSERT, which has ON CONFLICT."""

    def put(self, connection: Connection, table: int, rows: list[tuple[bytes, bytes]]) -> None:
        """Insert or replace rows; there is at least one, and no key twice."""

    def remove(self, connection: Connection, table: int, keys: list[bytes]) -> None:
        """Delete rows; there is at least one key."""

    def take_long(self, connection: Connection) -> None:
        """Let the transaction's next statements take as long as they need."""


class SqlStore:
    """The tables of a group in the database that `engine` connects to, by `url`."""

    def __init__(self, engine: Engine, dialect: Dialect, group: str, url: str) -> None:
        self.engine = engine
        self.dialect = dialect
        self.group = group
        self.url = url
        self.name = without_password(url)
        self._reader: Connection | None = None
        self._made = False

    def table(self, view: str, partition: int) -> "SqlTable":
        return SqlTable(self, view, partition)

    def make(self) -> None:
        """Create the tables that are missing; another worker may be doing so at this moment."""
        if not self._made:
            with self.engine.begin() as connection:
                create_missing(connection, _METADATA, AdvisoryLock.VIEW_STATE)
            self._made = True

    @property
    def reader(self) -> Connection:
        """The connection for reads, each a transaction of its own."""
        if self._reader is None:
            self._reader = self.engine.connect().execution_options(isolation_level="AUTOCOMMIT")
        return self._reader

    def close(self) -> None:
        self.drop()
        self.engine.dispose()

    def drop(self) -> None:
        """Forget the connection for reads, which may be broken, and look at the tables again."""
        reader, self._reader = self._reader, None
        self._made = False
        if reader is not None:
            reader.invalidate()
            reader.close()


class SqlTable:
    """The rows of one view in one partition; see `stores.view_state.table.ViewTable`."""

    def __init__(self, store: SqlStore, view: str, partition: int) -> None:
        self._store = store
        self._at = {"consumer_group": store.group, "view": view, "partition": partition}
        self.name = f"{store.group}/{view}/{partition} in {store.name}"
        self._stamp: FencingToken | None = None
        self._id = 0
        self.offset: int | None = None
        self._do("open", self._open)

    def _open(self) -> None:
        store = self._store
        store.make()
        with store.engine.begin() as connection:
            insert = store.dialect.insert(TABLES).values(self._at).on_conflict_do_nothing()
            connection.execute(insert)
            found = connection.execute(
                select(TABLES.c.id, TABLES.c.next_offset).filter_by(**self._at)
            ).one()
        self._id, self.offset = found

    def claim(self) -> None:
        self._do("claim", self._claim)

    def _claim(self) -> None:
        self._store.make()
        stamp = FencingToken()
        insert = self._store.dialect.insert(TABLES).values(**self._at, stamp=str(stamp))
        claim = insert.on_conflict_do_update(
            index_elements=list(self._at), set_={"stamp": str(stamp)}
        ).returning(TABLES.c.id, TABLES.c.next_offset)
        with self._store.engine.begin() as connection:
            found = connection.execute(claim).one()
        self._id, self.offset = found
        self._stamp = stamp

    def get(self, key: bytes) -> bytes | None:
        return self._do("read", lambda: self._get(key))

    def _get(self, key: bytes) -> bytes | None:
        found = self._store.reader.execute(_GET, {"of": self._id, "wanted": key}).one_or_none()
        stamp, value = (None, None) if found is None else found
        self._check(stamp)
        return None if value is None else bytes(value)

    def scan(self, first: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
        statement = _SCAN_FROM
        while True:
            at, query = {"of": self._id, "first": first, "end": end}, statement
            page = self._do("read", lambda at=at, query=query: self._page(query, at))  # type: ignore[misc]
            yield from page
            if len(page) < PAGE:
                return
            first, statement = page[-1][0], _SCAN_AFTER

    def _page(self, query: Any, at: dict[str, Any]) -> list[tuple[bytes, bytes]]:
        found = self._store.reader.execute(query, at).all()
        # Asked afterwards: rows of the time before another worker's claim are right.
        self._check(self._store.reader.execute(_STAMP, {"of": self._id}).scalar_one_or_none())
        return [(bytes(key), bytes(value)) for key, value in found]

    def write(self, rows: Iterable[Row], offset: int | None = None) -> None:
        last = dict(rows)
        put = [(key, value) for key, value in last.items() if value is not None]
        gone = [key for key, value in last.items() if value is None]
        dialect = self._store.dialect

        def work(connection: Connection) -> None:
            if gone:
                dialect.remove(connection, self._id, gone)
            if put:
                dialect.put(connection, self._id, put)

        self._do("write", lambda: self._change(work, self.offset if offset is None else offset))

    def clear(self) -> None:
        def work(connection: Connection) -> None:
            self._store.dialect.take_long(connection)
            connection.execute(_EMPTY, {"of": self._id})

        self._do("empty", lambda: self._change(work, None))

    def _change(self, work: Callable[[Connection], None], offset: int | None) -> None:
        """Do it in one transaction with the stamp and the offset, if the table is as it was left.

        The table's line comes first: it is locked until the transaction ends.
        """
        if self._stamp is None:
            raise unclaimed(self.name)
        stamp = self._stamp.next()
        line = {"of": self._id, "left": str(self._stamp), "new": str(stamp), "offset": offset}
        with self._store.engine.begin() as connection:
            if connection.execute(_STAMP_IT, line).rowcount != 1:
                found = connection.execute(_STAMP, {"of": self._id}).scalar_one_or_none()
                raise self._stamp.mismatch(self.name, found)
            work(connection)
        self._stamp, self.offset = stamp, offset

    def _check(self, stamp: str | None) -> None:
        if self._stamp is not None and stamp != str(self._stamp):
            raise self._stamp.mismatch(self.name, stamp)

    def _do(self, doing: str, work: Callable[[], T]) -> T:
        try:
            return work()
        except SQLAlchemyError as error:
            self._store.drop()
            away = isinstance(error, OperationalError | InterfaceError | TimeoutError) or (
                isinstance(error, DBAPIError) and is_passing(error)
            )
            reason = said(error, self._store.url)
            raise (TableUnavailable if away else TableError)(
                f"cannot {doing} the table {self.name}: {reason}; {self._store.dialect.remedy}"
            ) from error

    def close(self) -> None:
        """Let go of the table; the rows stay in the database."""
