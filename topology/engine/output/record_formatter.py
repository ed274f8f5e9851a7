"""How a view's row changes are written as a record of its output topic."""

from collections.abc import Callable

import orjson

from topology.declaration.lanes import split_lane
from topology.declaration.view import View
from topology.engine.commit_unit import NO_HEADERS, Out
from topology.model.change_json import encoded
from topology.model.changes import Delete, Upsert
from topology.model.errors import HandlerError
from topology.model.event import Event

OUTPUT_LIMIT = 1_000_000
"""Bytes of a record: key, value and headers; Kafka's own default limit is a little more."""
EPOCH = "epoch"
"""Header and field of an output record: how often its stream was rebuilt or dropped
before, if it was."""


class RecordFormatter:
    """Formats one view's output records.

    In a view with lanes the record's key is the stream, and its body names the lane; the body's
    `stream` is both, joined: the read store's fence. epoch_of: a stream → how often it was made
    anew; None where none of the view was.
    """

    def __init__(self, view: View, epoch_of: Callable[[str], int] | None = None) -> None:
        self.view_name = view.name
        self.view_header = ("view", view.name.encode())
        self.has_lanes = view.split is not None
        self.epoch_of = epoch_of

    def record(
        self,
        event: Event,
        changes: list[Upsert | Delete],
        now: int,
        context: list[tuple[str, bytes]] = NO_HEADERS,
    ) -> Out:
        """The record of an event's row changes, written at `now` (ms). Raises HandlerError.

        context: headers of the trace that it is part of."""
        key = event.stream
        value = encoded(
            {"view": self.view_name, "stream": key, "sequence": event.sequence}, changes
        )
        if len(value) > OUTPUT_LIMIT:
            raise too_large("the event's row changes", value)
        headers = [self.view_header, ("sequence", b"%d" % event.sequence)]
        if self.has_lanes:
            key, lane = split_lane(key)
            value = value[:-1] + b',"lane":' + orjson.dumps(lane) + b"}"
        if self.epoch_of is not None and (epoch := self.epoch_of(event.stream)):
            value = value[:-1] + b',"epoch":%d}' % epoch
            headers.append((EPOCH, b"%d" % epoch))
        if context:
            headers += context
        return key.encode(), value, now, headers


def own_stream(view: View, event: Event) -> str:
    """The stream's own id, whether the view has lanes or not."""
    return event.stream if view.split is None else split_lane(event.stream)[0]


def too_large(what: str, value: bytes) -> HandlerError:
    """What to raise for what has more bytes than a record takes."""
    return HandlerError(f"{what} has {len(value)} bytes; the limit is {OUTPUT_LIMIT}")
