"""PostgreSQL for the tests of the outbox: a schema a test, in one database."""

from collections.abc import Iterator
from uuid import uuid4

import pytest
from sqlalchemy import Engine, create_engine, make_url

from checkout.postgres import Postgres
from tests.contracts.schema import new_schema


@pytest.fixture(scope="session")
def shared(postgres: Postgres) -> str:
    return postgres.new_database(f"test-{uuid4().hex[:8]}")


@pytest.fixture
def database(shared: str) -> str:
    return new_schema(shared)


@pytest.fixture
def engine(database: str) -> Iterator[Engine]:
    """Room for as many connections as a test has threads."""
    url = make_url(database).set(drivername="postgresql+psycopg")
    engine = create_engine(url, pool_size=20)
    yield engine
    engine.dispose()
