"""What stops a segment, a publisher or a consumer."""


class SegmentError(RuntimeError):
    """A segment cannot be used as it is; the text names the thing, the reason and the remedy."""


class SegmentDamaged(SegmentError):
    """What was promised between START and END is not there. It stops this pair only."""


class StaleOwner(SegmentError):
    """Another generation owns the segments by now; stop, and start over from what SQL says."""


class DestinationDown(ConnectionError):
    """Nothing could be confirmed. The batch is in doubt: it comes again, with the same ids."""


class PublishRefused(ValueError):
    """A destination refuses one message of a batch; the others are in doubt.

    Args:
        index: its place in the batch.
        reason: why.
    """

    def __init__(self, index: int, reason: str) -> None:
        super().__init__(f"message {index} of the batch is refused: {reason}")
        self.index, self.reason = index, reason
