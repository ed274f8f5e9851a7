"""A partition with full=redeliver()."""

from typing import Any

from tests.topology.partition import Partition, shop
from topology import (
    redeliver,
)


def partition_of(**policies: Any) -> Partition:
    return Partition(shop(**{"buffer": 3, "full": redeliver(delay=1, limit=3), **policies}))
