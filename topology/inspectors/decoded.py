"""JSON out of bytes, for formats that have it in several places."""

from typing import Any

import orjson

from topology.model.errors import Malformed


def decoded(raw: bytes, what: str = "the value is not JSON") -> Any:
    """The JSON in `raw`. Raises Malformed that begins with `what`."""
    try:
        return orjson.loads(raw)
    except (orjson.JSONDecodeError, RecursionError) as error:
        raise Malformed(f"{what}: {error}") from None
