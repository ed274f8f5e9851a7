"""What a transport is to units of work: a side that is consumed from, and one that publishes."""

from collections.abc import Mapping, Sequence
from typing import Protocol, runtime_checkable

from stores.segments.message import InboundMessage, OutboundBatch, Pair, Place


class Inbound(Protocol):
    """One inbound topic. `topic` is its name.

    One with `final = True` is a queue that never delivers again what was acknowledged.
    """

    topic: str

    async def start(self, positions: Mapping[int, int]) -> None:
        """Connect, and seek; also after a failure.

        Args:
            positions: partition → where to go on; what is not in it begins with the first message.

        Raises:
            ConnectionError: the transport is away.
        """
        ...

    async def poll(self, most: int, seconds: float) -> Sequence[InboundMessage]:
        """Return the next messages, in order per partition.

        Args:
            most: how many at most.
            seconds: to wait, where there is none.

        Raises:
            ConnectionError: the transport is away.
        """
        ...

    async def acknowledge(self, positions: Mapping[int, int]) -> None:
        """Tell the transport what it may forget: this is behind all that SQL has.

        Args:
            positions: partition → the position behind what is done.

        Raises:
            ConnectionError: the transport is away.
        """
        ...

    async def stop(self) -> None:
        """Disconnect; without an effect where it is not connected."""
        ...


@runtime_checkable
class Recognising(Protocol):
    """An inbound topic that can be told from another one of its name."""

    async def recognise(self, known: str | None) -> str | None:
        """Say by what the topic is known; asked after each poll, before anything is promised.

        Args:
            known: the last answer, of another process too; None: there is none.

        Raises:
            ConnectionError: the transport is away.
            SegmentError: it is another topic.
        """
        ...


class Outbound(Protocol):
    """One transport, for one pair.

    One with `keeps_start = True` keeps the place behind each batch together with it, so that SQL's
    START may be behind that.
    """

    async def start(self, pair: Pair) -> Place | None:
        """Connect, and shut out whoever published the pair before.

        Args:
            pair: the inbound topic and the outbound transport.

        Returns:
            The place behind what the destination has, where it keeps that; it beats SQL's START.

        Raises:
            DestinationDown: the transport is away.
        """
        ...

    async def publish(self, batch: OutboundBatch) -> None:
        """Publish a batch, in order, and return when all of it is confirmed.

        Args:
            batch: of the pair; one without messages moves START, where the destination keeps it.

        Raises:
            DestinationDown: it is in doubt.
            PublishRefused: one message is refused for what it is, however often it is tried.
        """
        ...

    async def stop(self) -> None:
        """Disconnect; without an effect where it is not connected."""
        ...
