"""Messages that nobody would send, for inspectors that must take them all the same."""

import copy
from typing import Any

import orjson
from hypothesis import strategies as st

from topology import Malformed, Record
from topology.inspectors.inspector import AnyInspector, Found, compile_inspector

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False)
    | st.text(max_size=20)
)
JSON = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=4,
)


def headers_of(names: list[str]) -> st.SearchStrategy[list[tuple[str, Any]]]:
    """Any headers, some with these names."""
    name = st.sampled_from(names) | st.text(max_size=5)
    return st.lists(st.tuples(name, st.none() | st.binary(max_size=20)), max_size=6)


@st.composite
def spoilt(draw: st.DrawFn, good: dict[str, Any]) -> bytes:
    """A good body of which up to three places became something else, or are gone."""
    body = copy.deepcopy(good)
    for _ in range(draw(st.integers(0, 3))):
        at: Any = body
        while True:
            name = draw(st.sampled_from(sorted(at)))
            inner = at[name]
            if not isinstance(inner, dict) or not inner or draw(st.booleans()):
                break
            at = inner
        if draw(st.booleans()):
            at[name] = draw(JSON)
        else:
            del at[name]
        if not body:
            break
    return written(body)


def written(body: Any) -> bytes:
    """As JSON where JSON can say it."""
    try:
        return orjson.dumps(body)
    except TypeError:
        return b"{"


def taken(
    inspector: AnyInspector, value: bytes | None, key: bytes | None = None, headers: Any = ()
) -> Found | None:
    """What an inspector makes of a message. Fails for all but an event, unknown or Malformed."""
    found, reason = None, "unknown"
    try:
        found = compile_inspector(inspector)(Record("t", 0, 0, key, value, headers))
    except Malformed as error:
        reason = str(error)
    assert 0 < len(reason) < 1000
    if found is None:
        return None
    assert found.__class__ is tuple
    stream, sequence, kind, _ = found
    assert stream.__class__ is str
    assert stream.encode()
    assert sequence.__class__ is int
    assert -(2**63) <= sequence < 2**63
    assert kind is None or kind.__class__ is str
    return found
