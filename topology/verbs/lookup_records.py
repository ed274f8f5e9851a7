"""What the views of a lookup tell each other: records by key, and by key again for those that wait.

A record's value is a JSON list that begins with its kind:

- `["left", [[sequence, time, [[number, at], …], content], …]]`: left events, and what their values
  look up.
- `["right", [[sequence, time, missing, [content]], …]]`: right events; null for the last where
  their verbs leave one out.
- `["over", [[group], …]]`: rows have waited long enough, those that began to at about
  the same time.
- `["on", []]`: go on with the rows that a right event has made final.

There are several events in one record only where a rebuild corrects what was told before; `true`
stands behind those that were told of, and are others now.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

import orjson

from topology.model.changes import check_finite
from topology.model.errors import HandlerError, Malformed
from topology.model.event import Message
from topology.model.hop_headers import EPOCH, SEQUENCE, STREAM

Kind = Literal["left", "right", "over", "on"]
Item = list[Any]
_KINDS = ("left", "right", "over", "on")


@dataclass(slots=True)
class LookupRecord:
    """One record: its kind, what follows it, and the event that it comes from."""

    kind: str
    items: list[Item]
    stream: str
    sequence: int
    epoch: int

    @property
    def mark(self) -> list[int]:
        """Where its stream is with it."""
        return [self.epoch, self.sequence]


def lookup_record_of(message: Message) -> LookupRecord:
    """Read a record.

    Raises:
        Malformed: nobody but the lookup's views may write to the topic, and this is none of theirs.
    """
    try:
        headers = dict(message.headers)
        kind, items = orjson.loads(message.value or b"")
        if kind not in _KINDS:
            raise ValueError(f"{kind!r:.100} is none of {_KINDS}")
        return LookupRecord(
            kind, list(items), (headers[STREAM] or b"").decode(), int(headers[SEQUENCE] or b""),
            int(headers.get(EPOCH) or b"0"),
        )  # fmt: skip
    except (ValueError, TypeError, KeyError) as error:
        raise Malformed(f"no record of a lookup: {error}") from None


def encoded(kind: Kind, items: Iterable[Item] = ()) -> bytes:
    """A record's value. Raises HandlerError for content that JSON does not give back."""
    record = [kind, list(items)]
    try:
        raw = orjson.dumps(record, _jsonable, _OPTIONS)
    except (TypeError, ValueError) as error:
        raise HandlerError(f"lookup(…) keeps the event's content as JSON: {error}") from None
    if b"null" in raw and orjson.loads(raw) != record:
        check_finite("lookup: the event", record)
    return raw


def as_told_anew(before: Iterable[bytes], after: Iterable[bytes]) -> bytes | None:
    """What to send where a rebuild makes other records of a stream's events, None if it is the
    same: those that are new, and those before which more or fewer are missing.

    before, after: the values for one key.
    """
    was = {item[0]: item for value in before for item in orjson.loads(value)[1]}
    kind, now = "", list[Item]()
    for value in after:
        kind, items = orjson.loads(value)
        now += items
    made = [[*item, True] if item[0] in was else item for item in now if was.get(item[0]) != item]
    return orjson.dumps([kind, made]) if made else None


_OPTIONS = (
    orjson.OPT_PASSTHROUGH_DATETIME
    | orjson.OPT_PASSTHROUGH_DATACLASS
    | orjson.OPT_PASSTHROUGH_SUBCLASS
)


def _jsonable(value: Any) -> Any:
    raise TypeError(f"a {type(value).__name__} is none; let the inspector leave it as JSON has it")
