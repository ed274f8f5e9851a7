"""The Delta Lake read store keeps the contract of sinks, in the driver and by Spark's tasks: all of
it, which takes some twenty minutes.

python -m pytest tests/stores/sinks/delta/whole_contract.py
"""

import pytest

from stores.sinks.contract import SinkContract
from tests.stores.sinks.compared import ComparedContract
from tests.stores.sinks.delta.distributed import DistributedDeltaStore
from tests.stores.sinks.delta.test_distributed import CutOffStore
from tests.stores.sinks.delta.tested_store import DeltaOwn

pytestmark = pytest.mark.integration


class TestWholeDeltaSink(DeltaOwn, SinkContract, ComparedContract):
    pass


class TestWholeDistributedDeltaSink(DistributedDeltaStore, SinkContract):
    """What is not plain is left to the driver; so a batch goes through the steps of either."""

    steps = ()


class TestCutOffs(CutOffStore):
    @pytest.mark.parametrize("step", CutOffStore.steps)
    def test_a_batch_that_is_cut_off_at_any_step_is_applied_once(self, step: str) -> None:
        self.apply_after_a_cut(step)
