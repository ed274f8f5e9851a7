"""What every inbox keeps, whatever database it is in."""

from tests.contracts.cursor.delivering import Delivering
from tests.contracts.cursor.parking import Parking
from tests.contracts.cursor.receiving import Receiving

__all__ = ["InboxContract"]


class InboxContract(Receiving, Delivering, Parking):
    """A subclass has a fixture `engine`: of a new, empty database."""
