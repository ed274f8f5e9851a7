"""Staged effects as bytes, for those whose SQL is committed before Kafka has them. Pure.

The handler is not run again for them, and might yield something else: they are the effects.
"""

import zlib
from base64 import b64decode, b64encode
from typing import Any

import orjson

from topology.engine.commit_unit import CommitUnit, Out
from topology.engine.staged_effects import Staged
from topology.model.event import Event, Message


def fingerprint(message: Message) -> int:
    """A number that another message at the same offset, of a log made anew, does not have."""
    return zlib.crc32(message.value or b"", message.timestamp & 0xFFFFFFFF)


def encode_staged(staged: Staged, message: Message) -> bytes:
    """The effects of an attempt at `message`, as JSON."""
    unit = staged.unit
    at = {
        id(out): (kind, topic, index)
        for kind, records in (("colocated", unit.colocated), ("keyed", unit.keyed))
        for topic, outs in records.items()
        for index, out in enumerate(outs)
    }
    return orjson.dumps(
        {
            "of": fingerprint(message),
            "stream": staged.event.stream,
            "sequence": staged.event.sequence,
            "state": _text(staged.state),
            "rows": [[_text(key), _text(value)] for key, value in staged.rows],
            "parks": staged.parks,
            "failed": staged.failed,
            "dead": staged.dead,
            "colocated": _encoded(unit.colocated),
            "keyed": _encoded(unit.keyed),
            "sent": [[at[id(each[1])], *each[2:]] for each in unit.sent if id(each[1]) in at],
            "reports": unit.reports,
            "malformed": unit.malformed,
            "unrouted": unit.unrouted,
        }
    )


def decode_staged(raw: bytes, message: Message, unit: CommitUnit) -> Staged | None:
    """The effects of the attempt that was made at `message`; None if it was at another one.

    unit: an empty one, which they are put into.
    """
    found: dict[str, Any] = orjson.loads(raw)
    if found["of"] != fingerprint(message):
        return None
    for records, name in ((unit.colocated, "colocated"), (unit.keyed, "keyed")):
        for topic, outs in found[name].items():
            records[topic] += [_out(*each) for each in outs]
    for (kind, topic, index), view, stream, sequence in found["sent"]:
        out = (unit.keyed if kind == "keyed" else unit.colocated)[topic][index]
        unit.sent.append((topic, out, view, stream, sequence))
    unit.reports += found["reports"]
    unit.malformed += found["malformed"]
    unit.unrouted += found.get("unrouted", 0)
    event = Event(found["stream"], found["sequence"], None, None, message)
    rows = [(_raw(key) or b"", _raw(value)) for key, value in found["rows"]]
    return Staged(
        event, unit, _raw(found["state"]), rows, found["parks"], found["failed"], found["dead"]
    )


def deleted_rows(raw: bytes) -> set[bytes]:
    """The keys of the rows that encoded effects delete."""
    return {_raw(key) or b"" for key, value in orjson.loads(raw)["rows"] if value is None}


def _encoded(records: dict[str, list[Out]]) -> dict[str, list[Any]]:
    return {
        topic: [
            [_text(key), _text(value), time, [[name, _text(each)] for name, each in headers]]
            for key, value, time, headers in outs
        ]
        for topic, outs in records.items()
    }


def _out(key: str | None, value: str | None, time: int, headers: list[list[Any]]) -> Out:
    return _raw(key), _raw(value), time, [(name, _raw(each) or b"") for name, each in headers]


def _text(raw: bytes | None) -> str | None:
    return None if raw is None else b64encode(raw).decode()


def _raw(text: str | None) -> bytes | None:
    return None if text is None else b64decode(text)
