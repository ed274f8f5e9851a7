"""What goes wrong with a read store."""


class StoreError(RuntimeError):
    """A read store cannot be used as it is; the text names the thing and the remedy."""


class NotYet(StoreError):
    """What was asked for cannot be done at this moment, and may be a moment later."""


class NoSuchTable(StoreError):
    """A read store does not have the table that was asked for."""


class DataRefused(StoreError):
    """A database does not take a value: it is of another type, or breaks a rule of the table."""
