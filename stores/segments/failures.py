"""What becomes of a message that fails again and again: the seam that routing fills. Pure."""

from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from stores.segments.message import InboundMessage, OutboundMessage
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

    def admit(self, message: OutboundMessage) -> OutboundMessage:
        """What is published in a message's place: itself, unless its stream is parked."""
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
    """

    transport: str
    destination: str = "errors"
    attempts: int = 3

    def unroutable(
        self, message: InboundMessage, error: Exception, attempts: int
    ) -> Sequence[OutboundMessage] | None:
        """See `FailurePolicy.unroutable`."""
        if attempts < self.attempts:
            return None
        trail = {
            f"{FAILED}-from": f"{message.topic}/{message.partition}/{message.offset}",
            f"{FAILED}-reason": printable(f"{type(error).__name__}: {error}"),
            f"{FAILED}-attempts": str(attempts),
        }
        headers, value = {**message.headers, **trail}, message.value
        if attempts > self.attempts + 1:
            raise error
        if attempts > self.attempts:  # even for errors it was too large
            headers[_BYTES], value = str(len(value)), b64encode(value[:900])
        return [OutboundMessage(self.transport, self.destination, value, message.key, headers)]

    def admit(self, message: OutboundMessage) -> OutboundMessage:
        """See `FailurePolicy.admit`."""
        return message

    def refused(
        self, message: OutboundMessage, reason: str, attempts: int
    ) -> OutboundMessage | None:
        """See `FailurePolicy.refused`."""
        if attempts < self.attempts:
            return None
        if message.destination == self.destination:
            return _stand_in(message)
        trail = {
            f"{FAILED}-from": message.destination,
            f"{FAILED}-reason": printable(reason),
            f"{FAILED}-attempts": str(attempts),
        }
        headers = {**message.headers, **trail}
        return replace(message, destination=self.destination, headers=headers)


def _stand_in(message: OutboundMessage) -> OutboundMessage | None:
    """For what errors refuse: it in base64, then the beginning of that; None: refused as well."""
    if _BYTES not in message.headers:
        headers = {**message.headers, _BYTES: str(len(message.value))}
        return replace(message, value=b64encode(message.value), headers=headers)
    if len(message.value) > _BEGINNING:
        return replace(message, value=message.value[:_BEGINNING])
    return None
