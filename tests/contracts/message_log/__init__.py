"""What every database has to do as the place of a message log: a suite that each inherits."""

from tests.contracts.message_log.appending import Appends
from tests.contracts.message_log.reading import Reads
from tests.contracts.message_log.streams import KnowsStreams


class MessageLogContract(Appends, Reads, KnowsStreams):
    """All of it. Give `engine`."""
