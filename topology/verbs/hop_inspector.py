"""What reads the records between two views, whose keys are the topology's own."""

from collections.abc import Callable
from typing import Any

from topology.inspectors.inspector import Found, Inspect, Normalised
from topology.inspectors.stream_ids import StreamIds
from topology.model.errors import Malformed
from topology.model.event import Message


class HopInspector(Normalised):
    """Takes a record's key as its stream, just as it is: the record's partition is that of the key.

    Its sequence is its offset.

    Args:
        content_of: a record → its content; raises Malformed.
        stream_ids: how a person may write a key.
    """

    def __init__(self, content_of: Callable[[Message], Any], stream_ids: StreamIds) -> None:
        self.stream_ids = stream_ids
        self._content_of = content_of

    def compile(self) -> Inspect:
        """Return the inspector as one function of a message."""
        content_of = self._content_of

        def inspect(message: Message) -> Found:
            content = content_of(message)
            try:
                stream = (message.key or b"").decode()
            except UnicodeDecodeError:
                stream = ""
            if not stream:
                raise Malformed("no record of a hop: its key is no text")
            return stream, message.offset, None, content

        return inspect

    def __repr__(self) -> str:
        return self._content_of.__name__
