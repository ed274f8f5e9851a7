"""Consumers that read what was published again, and then go on where they were."""

from stores.replay.recovering.consumer import RecoveringConsumer
from stores.replay.recovering.errors import PrimaryTrimmed, RecoveryEnded, RecoveryRefused
from stores.replay.recovering.owned import Batch
from stores.replay.recovering.replay_server import ServerAway

__all__ = [
    "Batch",
    "PrimaryTrimmed",
    "RecoveringConsumer",
    "RecoveryEnded",
    "RecoveryRefused",
    "ServerAway",
]
