"""The Delta Lake read store keeps the contract of sinks: all of it, which takes some ten minutes.

python -m pytest tests/stores/sinks/delta/whole_contract.py
"""

import pytest

from stores.sinks.contract import SinkContract
from tests.stores.sinks.compared import ComparedContract
from tests.stores.sinks.delta.tested_store import DeltaOwn

pytestmark = pytest.mark.integration


class TestWholeDeltaSink(DeltaOwn, SinkContract, ComparedContract):
    pass
