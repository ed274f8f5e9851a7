"""Where an inspector looks: a path into the body, the record key, a header."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from topology.model.errors import DeclarationError, Malformed
from topology.model.event import Message

Getter = Callable[[Any, Message], Any]
"""(decoded body, message) → value; raises Malformed where there is none."""

_STEP = re.compile(r"[^.\[\]\s][^.\[\]]*|\[\d+\]")


@dataclass(frozen=True, slots=True)
class RecordKey:
    """The record's own key."""


@dataclass(frozen=True, slots=True)
class Header:
    """The last header of that name."""

    name: str


Field = str | RecordKey | Header


def key() -> RecordKey:
    """Take the value from the record's key."""
    return RecordKey()


def header(name: str) -> Header:
    """Take the value from a header.

    Args:
        name: the header's name.
    """
    if not isinstance(name, str) or not name:
        raise DeclarationError(f"header({name!r}): give the header's name, a text")
    return Header(name)


def path_steps(path: str) -> tuple[str | int, ...]:
    """'order.lines[0].id' → ('order', 'lines', 0, 'id'). Raises DeclarationError."""
    steps: list[str | int] = []
    for part in path.split("."):
        found = _STEP.findall(part)
        named = [step for step in found if not step.startswith("[")]
        if "".join(found) != part or len(named) != 1 or found[0] != named[0]:
            raise DeclarationError(
                f"field path {path!r}: write names joined by dots, with [n] for a list's item, "
                "as in 'order.lines[0].id'"
            )
        steps += [int(s[1:-1]) if s.startswith("[") else s for s in found]
    return tuple(steps)


def getter(field: Field, what: str) -> Getter:
    """A function that fetches the field; `what` is its role, named in errors."""
    if isinstance(field, RecordKey):

        def from_key(_: Any, message: Message) -> Any:
            return message.key

        return from_key
    if isinstance(field, Header):
        name = field.name

        def from_header(_: Any, message: Message) -> Any:
            for header_name, value in reversed(message.headers):
                if header_name == name:
                    return value
            raise Malformed(f"the {what} is missing: no header {name!r}")

        return from_header
    if not isinstance(field, str):
        raise DeclarationError(
            f"{what}={field!r}: give a field path such as 'order.id', key() or header('name')"
        )
    steps = path_steps(field)
    if len(steps) == 1:
        only = steps[0]

        def from_body(body: Any, _: Message) -> Any:
            try:
                return body[only]
            except (KeyError, TypeError):
                raise _missing(what, field, body) from None

        return from_body

    def from_path(body: Any, _: Message) -> Any:
        value = body
        try:
            for step in steps:
                if step.__class__ is int and value.__class__ is not list:
                    raise _missing(what, field, body)
                value = value[step]
        except (KeyError, IndexError, TypeError):
            raise _missing(what, field, body) from None
        return value

    return from_path


def _missing(what: str, field: str, body: Any) -> Malformed:
    if not isinstance(body, dict):
        return Malformed(f"the {what} is missing: the body is no JSON object")
    return Malformed(f"the {what} is missing: no field {field!r}")
