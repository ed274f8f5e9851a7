"""The clock of a database, for those whose machines' clocks need not agree."""

from typing import Any

from sqlalchemy import BigInteger
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement


class Now(FunctionElement[int]):
    """Milliseconds since 1970, as the statement begins."""

    type = BigInteger()
    inherit_cache = True


@compiles(Now, "postgresql")
def _in_postgresql(*_: Any, **__: Any) -> str:
    return "CAST(extract(epoch FROM statement_timestamp()) * 1000 AS BIGINT)"


@compiles(Now, "sqlite")
def _in_sqlite(*_: Any, **__: Any) -> str:
    return "CAST((julianday('now') - 2440587.5) * 86400000.0 AS INTEGER)"
