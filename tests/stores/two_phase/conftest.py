"""Two databases, and coordinators that are closed when a test is over."""

from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from sqlalchemy import Engine

from checkout.postgres import Postgres
from tests.contracts.schema import new_schema
from tests.stores.two_phase.parts import made, with_rows


@pytest.fixture(autouse=True)
def _close() -> Iterator[None]:
    yield
    for coordinator in made:
        coordinator.close()
    made.clear()


@pytest.fixture(scope="module")
def databases(postgres: Postgres) -> tuple[str, str]:
    """Two that the module's tests share, each with schemas of its own."""
    name = uuid4().hex[:8]
    return postgres.new_database(f"shop-{name}"), postgres.new_database(f"other-{name}")


@pytest.fixture
def database(databases: tuple[str, str]) -> str:
    return new_schema(databases[0])


@pytest.fixture(params=["sqlite", "postgresql"])
def shop(
    request: pytest.FixtureRequest, tmp_path: Path, databases: tuple[str, str]
) -> Iterator[Engine]:
    """The database that keeps the decisions."""
    url = f"sqlite:///{tmp_path}/shop.sqlite"
    if request.param == "postgresql":
        url = new_schema(databases[0])
    yield from with_rows(url)


@pytest.fixture
def other(databases: tuple[str, str]) -> Iterator[Engine]:
    """A participant."""
    yield from with_rows(new_schema(databases[1]))
