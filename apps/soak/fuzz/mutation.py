"""Real bytes, changed: what the boundaries' strategies share."""

from collections.abc import Sequence
from typing import Any

import orjson
from hypothesis import strategies as st

HEADERS = Sequence[tuple[str, bytes | None]]

_NUMBERS = [
    *(0, -1, 1, 2**31, 2**53, 2**63 - 1, 2**63, 2**64 - 1, 2**64, -(2**63), -(2**63) - 1),
    *(10**30, 0.5, 1e308, -0.0),
]
_TEXTS = ["", "\0", "\x1b[2J", "\u202e", "a" * 70_000, "é", "\U0010ffff", "1", "null", "NaN", "1e9"]

scalars: st.SearchStrategy[Any] = (
    st.none()
    | st.booleans()
    | st.sampled_from(_NUMBERS)
    | st.integers()
    | st.floats()
    | st.sampled_from(_TEXTS)
    | st.text(max_size=20)
)
values: st.SearchStrategy[Any] = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=5,
)


@st.composite
def changed_json(draw: st.DrawFn, good: Any) -> bytes:
    """A good body of which up to three places became something else, or are gone."""
    body = orjson.loads(orjson.dumps(good))
    for _ in range(draw(st.integers(0, 3))):
        holder, name = _place(draw, body)
        if holder is None:
            body = draw(values)
            break
        if draw(st.booleans()):
            holder[name] = draw(values)
        else:
            del holder[name]
    return _written(body)


def _place(draw: st.DrawFn, body: Any) -> tuple[Any, Any]:
    """Somewhere in a body: what holds it, and its name or index there."""
    holder, name, at = None, None, body
    while isinstance(at, dict | list) and at and (holder is None or draw(st.booleans())):
        holder = at
        name = draw(st.sampled_from(sorted(at) if isinstance(at, dict) else range(len(at))))
        at = holder[name]
    return holder, name


def _written(body: Any) -> bytes:
    import json

    # Not orjson: what it refuses to write, others send.
    return json.dumps(body).encode("utf-8", "surrogatepass")


@st.composite
def changed_bytes(draw: st.DrawFn, good: bytes) -> bytes:
    """Good bytes that were cut, flipped, repeated or added to in up to four places."""
    data = bytearray(good)
    for _ in range(draw(st.integers(0, 4))):
        at = draw(st.integers(0, len(data)))
        end = min(len(data), at + draw(st.integers(0, 8)))
        match draw(st.sampled_from(["cut", "flip", "insert", "repeat", "end"])):
            case "cut":
                del data[at:end]
            case "flip":
                data[at:end] = bytes(byte ^ draw(st.integers(0, 255)) for byte in data[at:end])
            case "insert":
                data[at:at] = draw(st.binary(max_size=8))
            case "repeat":
                data[at:at] = data[at:end] * draw(st.integers(1, 50))
            case _:
                del data[at:]
    return bytes(data)


@st.composite
def bodies(draw: st.DrawFn, samples: Sequence[Any]) -> bytes | None:
    """A record's value: mostly one of the good ones, changed; now and then anything at all.

    samples: bytes, or what JSON can write.
    """
    which = draw(st.integers(0, 9))
    if which == 0:
        return draw(st.none() | st.binary(max_size=200))
    good = draw(st.sampled_from(list(samples)))
    if isinstance(good, bytes):
        return draw(changed_bytes(good))
    if which < 3:
        return draw(changed_bytes(orjson.dumps(good)))
    return draw(changed_json(good))


def headers(
    names: Sequence[str], good: Sequence[bytes] = ()
) -> st.SearchStrategy[list[tuple[str, bytes | None]]]:
    """Any headers, many of them with these names and with values that are nearly right."""
    value = st.none() | st.binary(max_size=20)
    for each in good:
        value = value | changed_bytes(each)
    return st.lists(
        st.tuples(st.sampled_from(list(names)) | st.text(max_size=5), value), max_size=8
    )
