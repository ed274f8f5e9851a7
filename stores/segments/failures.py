"""What becomes of a message that fails again and again: the seam that routing fills. Pure."""

from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from stores.segments.message import Headers, InboundMessage, OutboundMessage
from topology.model.printable import printable

FAILED = "sequitur-failed"
"""Headers of a message that was diverted begin so."""
_BYTES = f"{FAILED}-bytes"
_BEGINNING = 1_200
"""Characters of base64 that are left of what is too large for errors, too."""


class FailurePolicy(Protocol):
    """Says what goes on in the place of what fails. Others go on in any case."""

    def unroutable(
        self, message: InboundMessage, error: Exception, attempts: int
    ) -> Sequence[OutboundMessage] | None:
        """What comes of a message whose routing raised.

        Args:
            message: as it was delivered.
            error: of the last attempt.
            attempts: how often it was tried.

        Returns:
            What is published of it; None: try again. What cannot be published is an attempt, too.
        """
        ...

    def refused(
        self, message: OutboundMessage, reason: str, attempts: int
    ) -> OutboundMessage | None:
        """What is published in the place of a message that its destination refused.

        Args:
            message: which.
            reason: why.
            attempts: how often it was tried.

        Returns:
            A message for the same transport, which keeps the id; None: try again.
        """
        ...


@dataclass(frozen=True, slots=True)
class ErrorsAfter:
    """After some attempts a message goes to errors, with its trail in headers.

    Attributes:
        transport: of the errors of routing; what is refused stays on its own transport.
        destination: where errors go.
        attempts: how often a message is tried.
        parks: whether what fails is set aside with its stream, where there are segments.

    Raises:
        ValueError: it says nothing of where errors go, or never tries.
    """

    transport: str
    destination: str = "errors"
    attempts: int = 3
    parks: bool = False

    def __post_init__(self) -> None:
        if not self.destination or self.attempts < 1:
            raise ValueError("errors have a destination, after 1 attempt or more")

    def unroutable(
        self, message: InboundMessage, error: Exception, attempts: int
    ) -> Sequence[OutboundMessage] | None:
        """See `FailurePolicy.unroutable`."""
        if attempts < self.attempts:
            return None
        where = f"{message.topic}/{message.partition}/{message.offset}"
        headers = _with_trail(message.headers, where, f"{type(error).__name__}: {error}", attempts)
        value = message.value
        if attempts > self.attempts + 1:
            raise error
        if attempts > self.attempts:  # even for errors it was too large
            headers, value = _sized(headers, value), b64encode((value or b"")[:900])
        return [OutboundMessage(self.transport, self.destination, value, message.key, headers)]

    def refused(
        self, message: OutboundMessage, reason: str, attempts: int
    ) -> OutboundMessage | None:
        """See `FailurePolicy.refused`."""
        if attempts < self.attempts:
            return None
        if message.destination == self.destination:
            return _stand_in(message)
        headers = _with_trail(message.headers, message.destination, reason, attempts)
        return replace(message, destination=self.destination, headers=headers)


def _stand_in(message: OutboundMessage) -> OutboundMessage | None:
    """For what errors refuse: it in base64, then the beginning of that, then this without its key,
    stream and headers; None: refused as well."""
    value = message.value or b""
    if not any(name == _BYTES for name, _ in message.headers):
        headers = _sized(message.headers, message.value)
        return replace(message, value=b64encode(value), headers=headers)
    if len(value) > _BEGINNING:
        return replace(message, value=value[:_BEGINNING])
    trail = tuple(each for each in message.headers if each[0].startswith(FAILED))
    bare = replace(message, key=None, headers=trail, stream=None, sequence=None)
    return None if bare == message else bare


def _with_trail(headers: Headers, where: str, reason: str, attempts: int) -> Headers:
    """The message's own headers, and behind them where it failed, why, and how often."""
    trail = {"from": where, "reason": printable(reason), "attempts": str(attempts)}
    return (*headers, *((f"{FAILED}-{name}", text.encode()) for name, text in trail.items()))


def _sized(headers: Headers, value: bytes | None) -> Headers:
    return (*headers, (_BYTES, b"null" if value is None else b"%d" % len(value)))
