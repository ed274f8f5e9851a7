"""A statement that SQLAlchemy, sqlite3 and psycopg can run."""

import re

from sqlalchemy import text

_PARAMETER = re.compile(r"(?<![:\w]):([a-z_]+)\b")


class Statement:
    """SQL with parameters as `:name`; it has no percent signs, and no colons beside.

    clause: for SQLAlchemy. named: for sqlite3. pyformat: for psycopg.
    """

    __slots__ = ("clause", "named", "pyformat")

    def __init__(self, sql: str) -> None:
        self.clause = text(sql)
        self.named = sql
        self.pyformat = _PARAMETER.sub(r"%(\1)s", sql)
