"""A ledger in a database and segments in a folder, new for each test that names no others."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Engine

from stores.db.engines import open_engine
from stores.segments import FileSegments, SegmentLedger
from tests.contracts.schema import database, shared

__all__ = ["database", "engine", "shared", "store"]


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    found = open_engine(f"sqlite:///{tmp_path}/ledger.db")
    SegmentLedger(found).create()
    yield found
    found.dispose()


@pytest.fixture
def store(tmp_path: Path) -> FileSegments:
    return FileSegments(tmp_path / "segments")
