"""What every inbox keeps, whatever database it is in."""

from tests.contracts.inbox.delivering import Delivering
from tests.contracts.inbox.parking import Parking
from tests.contracts.inbox.receiving import Receiving

__all__ = ["InboxContract"]


class InboxContract(Receiving, Delivering, Parking):
    """A subclass has a fixture `engine`: of a new, empty database."""
