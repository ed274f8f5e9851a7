"""Segments as rows of an SQL database, for consumers and publishers on several machines."""

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Engine,
    LargeBinary,
    MetaData,
    Table,
    Text,
    delete,
    func,
    select,
)
from sqlalchemy.exc import SQLAlchemyError

from stores.db.advisory_locks import AdvisoryLock
from stores.db.dialect import begin_writing
from stores.db.missing_tables import create_missing

ROWS = Table(
    "sequitur_segment_rows",
    MetaData(),
    Column("name", Text, primary_key=True),
    Column("offset", BigInteger, primary_key=True, autoincrement=False),
    Column("behind", BigInteger, nullable=False),
    Column("data", LargeBinary, nullable=False),
)
"""A row is what one `append` wrote."""


class RowSegments:
    """See `SegmentStore`.

    Args:
        engine: of SQLite or PostgreSQL, from `stores.db.engines`.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def create(self) -> None:
        """Make the table if it is not there."""
        with self._engine.begin() as connection:
            begin_writing(connection)
            create_missing(connection, ROWS.metadata, AdvisoryLock.SEGMENTS)

    def append(self, name: str, offset: int, data: bytes) -> None:
        row = {"name": name, "offset": offset, "behind": offset + len(data), "data": data}
        try:
            with self._engine.begin() as connection:
                begin_writing(connection)
                connection.execute(ROWS.insert().values(**row))
        except SQLAlchemyError as error:
            raise OSError(f"segment {name}: {error.__class__.__name__} at {offset}") from error

    def read(self, name: str, start: int, end: int) -> bytes:
        asked = (
            select(ROWS.c.offset, ROWS.c.data)
            .where(ROWS.c.name == name, ROWS.c.behind > start, ROWS.c.offset < end)
            .order_by(ROWS.c.offset)
        )
        parts: list[bytes] = []
        with self._engine.connect() as connection:
            for offset, data in connection.execute(asked):
                if offset > start:
                    break  # a row is missing
                parts.append(bytes(data)[start - offset : end - offset])
                start = offset + len(data)
        return b"".join(parts)

    def size(self, name: str) -> int:
        asked = select(func.max(ROWS.c.behind)).where(ROWS.c.name == name)
        with self._engine.connect() as connection:
            return int(connection.execute(asked).scalar_one() or 0)

    def cut(self, name: str, end: int) -> None:
        with self._engine.begin() as connection:
            self._delete(connection, name, end)

    def remove(self, name: str) -> None:
        with self._engine.begin() as connection:
            self._delete(connection, name, 0)

    def _delete(self, connection: Connection, name: str, end: int) -> None:
        begin_writing(connection)
        connection.execute(delete(ROWS).where(ROWS.c.name == name, ROWS.c.offset >= end))

    def names(self) -> list[str]:
        with self._engine.connect() as connection:
            return sorted(connection.execute(select(ROWS.c.name).distinct()).scalars())
