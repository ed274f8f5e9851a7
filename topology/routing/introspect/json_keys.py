"""Routing keys out of JSON, by paths."""

from collections.abc import Mapping
from typing import Any

import orjson

from topology.inspectors.fields import path_steps
from topology.model.errors import DeclarationError, Malformed
from topology.model.event import Message
from topology.routing.introspect.key_module import Introspect, KeyModule, Memo, checked_keys
from topology.routing.introspect.key_values import LONGEST, Keys, checked_content, checked_value

_BODY = "json"


class JsonKeys(KeyModule):
    """Extracts routing keys from a JSON object. A list is a key with several values.

    Args:
        keys: name of the key → path, as in `"order.lines[0].sku"`.
        reads: the format's name.

    Raises:
        DeclarationError: a name or a path is wrong.
    """

    def __init__(self, keys: Mapping[str, str], *, reads: str = "json") -> None:
        self.keys = checked_keys("JsonKeys", keys)
        for name, path in self.keys.items():
            if not isinstance(path, str):
                raise DeclarationError(f"JsonKeys: key {name!r}: {path!r} is no path")
        self.names, self.reads = tuple(self.keys), reads
        self._steps = {name: path_steps(path) for name, path in self.keys.items()}

    def compile(self) -> Introspect:
        """Return the module as one function of a message."""
        # A path of one step, which most are, needs no loop.
        places: list[tuple[str, tuple[Any, ...]]] = list(self._steps.items())
        flat = tuple((name, steps[0]) for name, steps in places if len(steps) == 1)
        deep = tuple((name, steps) for name, steps in places if len(steps) > 1)

        def introspect(message: Message, memo: Memo) -> Keys:
            body = memo.get(_BODY)
            if body is None:
                body = memo[_BODY] = _decoded(message.value)
            found: Keys = {}
            for name, step in flat:
                value = body.get(step)
                if value is not None:
                    if value.__class__ is not str or len(value) > LONGEST:
                        value = checked_value(name, value)
                    found[name] = value
            for name, steps in deep:
                value = body
                for at in steps:
                    if value.__class__ is dict:
                        value = value.get(at)
                    elif value.__class__ is list and at.__class__ is int and at < len(value):
                        value = value[at]
                    else:
                        value = None
                        break
                if value is not None:
                    if value.__class__ is not str or len(value) > LONGEST:
                        value = checked_value(name, value)
                    found[name] = value
            return found

        return introspect


def _decoded(value: bytes | None) -> dict[str, Any]:
    try:
        body = orjson.loads(checked_content(value))
    except (orjson.JSONDecodeError, RecursionError) as error:
        raise Malformed(f"the value is not JSON: {error}") from None
    if body.__class__ is not dict:
        raise Malformed("the value is JSON, but no object")
    found: dict[str, Any] = body
    return found
