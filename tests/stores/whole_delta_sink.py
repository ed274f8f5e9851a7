"""The Delta Lake read store keeps the contract of sinks: all of it, which takes some ten minutes.

python -m pytest tests/stores/whole_delta_sink.py
"""

import pytest

from tests.contracts.sink import SinkContract
from tests.stores.delta import DeltaOwn

pytestmark = pytest.mark.integration


class TestWholeDeltaSink(DeltaOwn, SinkContract):
    pass
