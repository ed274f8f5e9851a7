"""What a captured message is when it is published again. Pure."""

from collections.abc import Callable, Sequence
from typing import Protocol, runtime_checkable

from stores.replay.message import CapturedMessage
from stores.replay.replay_tables import Replay
from stores.segments.message import OutboundMessage
from topology.model.replay_headers import DAY, RECOVERY_END, again

TRANSPORT = "kafka"
_ID = "sequitur-id"

Way = Callable[[Replay, CapturedMessage], Sequence[OutboundMessage]]
"""Makes what is published of a message: none of an end of day, several of a routed one."""


@runtime_checkable
class Ruled(Protocol):
    """A way by rules that may change: a run keeps those of its beginning."""

    def begin(self, replay: str) -> str:
        """Read the rules for a run; returns what tells them from others."""

    def end(self, replay: str) -> None:
        """Forget them."""


def direct(replay: Replay, message: CapturedMessage) -> list[OutboundMessage]:
    """The message itself, with its id: that of its `sequitur-id`, else where it was published."""
    names = dict(message.headers)
    if DAY in names:
        return []
    id = names.get(_ID)
    target = replay.targets.get(message.topic) or replay.targets["*"]
    return [
        OutboundMessage(
            *(TRANSPORT, target, message.value, message.key, headers_of(replay, message)),
            id=message.position if id is None else id.decode(errors="replace"),
        )
    ]


def headers_of(replay: Replay, message: CapturedMessage) -> tuple[tuple[str, bytes], ...]:
    """The headers of what comes of a message."""
    return again(message.headers, replay.id, message.position, replay.actor, message.time)


def end_marks(replay: Replay) -> list[OutboundMessage]:
    """What tells each partition of a recovery that nothing more comes."""
    value = replay.id.encode()
    return [
        OutboundMessage(
            *(TRANSPORT, topic, b"", None, ((RECOVERY_END, value),)),
            id=f"{replay.id}/end/{topic}/{partition}",
            partition=partition,
        )
        for topic, count in replay.ends.items()
        for partition in range(count)
    ]


def partition_in(message: CapturedMessage, here: int, there: int) -> int | None:
    """The partition that a message goes to; None: its key decides.

    Args:
        message: what is published again.
        here: how many partitions its topic has.
        there: how many the target has.
    """
    if message.partition < 0:  # it was captured before it was published
        return None
    if here == there and message.partition < there:
        return message.partition
    return message.partition % there if message.key is None else None
