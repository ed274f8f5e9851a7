"""A database with a message log."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Engine

from stores.db.engines import open_engine
from stores.outbox.log import MessageLog


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    engine = open_engine(f"sqlite:///{tmp_path}/orders.sqlite")
    MessageLog().create(engine)
    yield engine
    engine.dispose()
