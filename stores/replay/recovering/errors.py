"""What can be wrong with a recovery, or with a consumer that recovers."""

from stores.replay.errors import ReplayError


class RecoveryRefused(ReplayError):
    """A recovery cannot begin; the consumer goes on where it is."""


class RecoveryEnded(ReplayError):
    """A recovery ended before all of it was read; the primary is read on."""


class PrimaryTrimmed(ReplayError):
    """Messages of the primary were deleted before they were read."""
