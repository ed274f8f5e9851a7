"""What goes wrong between sites."""

from aiokafka.errors import KafkaError


class SiteError(RuntimeError):
    """It cannot be done as things are; the text names the thing, the reason and the remedy."""


class SiteFenced(SiteError):
    """This site was taken over, and forwards nothing until it is returned."""


class NotCopied(SiteError):
    """The own broker has a message, and no second site is known to have it.

    Args:
        text: which one.
        sent: its origin, by which it can be waited for again.
    """

    def __init__(self, text: str, sent: object) -> None:
        super().__init__(text)
        self.sent = sent


class GivenUp(SiteError):
    """A message was deleted before another site had it, and given up: waiting is in vain.

    Args:
        text: which one.
        sent: its origin.
    """

    def __init__(self, text: str, sent: object) -> None:
        super().__init__(text)
        self.sent = sent


AWAY = (KafkaError, OSError, TimeoutError)
"""What says that a site does not answer, for now."""
