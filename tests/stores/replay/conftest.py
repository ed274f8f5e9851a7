"""PostgreSQL for the tests of the replay log: a schema a test, in one database."""

from tests.contracts.schema import database, shared

__all__ = ["database", "shared"]
