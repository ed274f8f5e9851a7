"""What can be wrong with a replay log, or with what is asked of it."""


class ReplayError(ValueError):
    """What is asked for cannot be done; the message says why, and what to do."""


class UnknownReplay(ReplayError):
    """There is no such replay, or recovery."""


class WrongState(ReplayError):
    """A replay is in a state in which this cannot be done."""


class Busy(ReplayError):
    """It cannot be done now, and can be later: try again."""
