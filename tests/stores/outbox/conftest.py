"""PostgreSQL for the tests of the outbox: a schema a test, in one database."""

from collections.abc import Iterator

import pytest
from sqlalchemy import Engine, create_engine, make_url

from tests.contracts.schema import database, shared

__all__ = ["database", "engine", "shared"]


@pytest.fixture
def engine(database: str) -> Iterator[Engine]:
    """Room for as many connections as a test has threads."""
    url = make_url(database).set(drivername="postgresql+psycopg")
    engine = create_engine(url, pool_size=20)
    yield engine
    engine.dispose()
