"""The Delta Lake read store keeps the contract of sinks: all of it, which takes some half an hour.

python -m pytest tests/stores/sinks/delta/whole_contract.py
"""

import pytest

from stores.sinks.contract import SinkContract
from stores.sinks.contract.dead import DeadContract
from stores.sinks.contract.epochs import EpochsContract
from stores.sinks.contract.fold import FoldContract
from stores.sinks.contract.once import OnceContract
from stores.sinks.contract.rows import RowsContract
from stores.sinks.contract.types import TypesContract
from tests.stores.sinks.compared import ComparedContract
from tests.stores.sinks.delta.distributed import DistributedDeltaStore
from tests.stores.sinks.delta.tested_store import DeltaOwn

pytestmark = pytest.mark.integration


class TestWholeDeltaSink(DeltaOwn, SinkContract, ComparedContract):
    """How far streams are is noted in the journal."""


class TestDeltaSinkThatWritesProgress(TestWholeDeltaSink):
    """It is written into `_progress` by each batch."""

    @pytest.fixture(autouse=True)
    def _written(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.write_progress(monkeypatch)

    test_progress_is_noted_until_there_is_enough_of_it = None  # type: ignore[assignment]


class TestDeltaSinkByExecutors(
    DistributedDeltaStore,
    RowsContract,
    OnceContract,
    EpochsContract,
    DeadContract,
    FoldContract,
    TypesContract,
):
    """Spark's tasks fold the batches that they can fold."""

    cut_off_at = ("_begin", "_write_staged", "_save_dead")
