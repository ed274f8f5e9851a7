"""A schema of one's own in a PostgreSQL database: much cheaper than a database.

`database` and `shared` are fixtures, for the conftest of tests that need no more than tables.
"""

from uuid import uuid4

import psycopg
import pytest
from psycopg.sql import SQL, Identifier

from checkout.postgres import Postgres


@pytest.fixture(scope="session")
def shared(postgres: Postgres) -> str:
    """A database."""
    return postgres.new_database(f"test-{uuid4().hex[:8]}")


@pytest.fixture
def database(shared: str) -> str:
    """The URL of a new, empty schema."""
    return new_schema(shared)


def new_schema(database: str) -> str:
    """Make one; returns a URL whose connections find and make tables there."""
    name = f"test_{uuid4().hex}"
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute(SQL("CREATE SCHEMA {}").format(Identifier(name)))
    return f"{database}&options=-csearch_path%3D{name}"
