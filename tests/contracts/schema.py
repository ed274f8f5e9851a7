"""A schema of one's own in a PostgreSQL database: much cheaper than a database."""

from uuid import uuid4

import psycopg
from psycopg.sql import SQL, Identifier


def new_schema(database: str) -> str:
    """Make one; returns a URL whose connections find and make tables there."""
    name = f"test_{uuid4().hex}"
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute(SQL("CREATE SCHEMA {}").format(Identifier(name)))
    return f"{database}&options=-csearch_path%3D{name}"
