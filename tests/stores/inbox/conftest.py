"""PostgreSQL for the tests of the inbox: a schema a test, in one database."""

from tests.contracts.schema import database, shared

__all__ = ["database", "shared"]
