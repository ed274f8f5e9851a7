"""The keys that rules look at: where a value is found, what a keymap says of it, how it reads."""

from collections.abc import Callable
from typing import Any

from topology.inspectors.fields import Header, RecordKey
from topology.model.errors import Malformed
from topology.model.event import Message
from topology.model.names import checked_name
from topology.model.printable import printable
from topology.routing.introspect.key_values import Keys, checked_value
from topology.routing.introspect.key_values import key_text as text_of
from topology.routing.tables import Keymap

RoutingKey = str | Header | RecordKey
"""The name of a key that a module extracts, `header("name")`, or `key()` for the record's key."""


Value = Callable[[Keys, Message], Any]
"""(keys, message) → a key's value, several, or None."""


def value_of(key: RoutingKey) -> Value:
    """A function that fetches a key's value. It raises Malformed for one that is too long."""
    if isinstance(key, str):
        return lambda keys, message: keys.get(key)
    if isinstance(key, RecordKey):
        return lambda keys, message: checked_value("key()", message.key)
    name = key.name

    def from_header(keys: Keys, message: Message) -> Any:
        for header_name, value in reversed(message.headers):
            if header_name == name:
                return checked_value(name, value)
        return None

    return from_header


def tags_of(value: Value, keymap: Keymap | None) -> Callable[[Keys, Message], tuple[str, ...]]:
    """A function that fetches the tags of a key's value; without a keymap, the value is them."""
    if keymap is None:

        def own(keys: Keys, message: Message) -> tuple[str, ...]:
            found = value(keys, message)
            if found.__class__ is str:
                return (found,)
            if found is None:
                return ()
            if found.__class__ is not list:
                return (text_of(found),)
            return tuple(dict.fromkeys(map(text_of, found)))  # else rules behind look once for each

        return own
    get, otherwise = keymap.found.get, keymap.otherwise

    def mapped(keys: Keys, message: Message) -> tuple[str, ...]:
        found = value(keys, message)
        if found.__class__ is str:
            return get(found, otherwise)
        if found is None:
            return ()
        if found.__class__ is not list:
            return get(text_of(found), otherwise)
        several = (tag for each in found for tag in get(text_of(each), otherwise))
        return tuple(dict.fromkeys(several))

    return mapped


def listed_in_header(value: Value) -> Value:
    """The value of a header that names several tags, with commas between."""

    def several(keys: Keys, message: Message) -> Any:
        found = value(keys, message)
        if found.__class__ is not str or "," not in found:
            return found.strip() or None if found.__class__ is str else found
        return [tag for each in found.split(",") if (tag := each.strip())]

    return several


def key_name(key: object) -> str:
    """A key as people read it."""
    if isinstance(key, Header):
        return f"header({printable(key.name)!r})"
    return "key()" if isinstance(key, RecordKey) else printable(key)


def checked_key(what: str, key: object) -> RoutingKey:
    """The key, if it can be one. Raises DeclarationError."""
    if isinstance(key, Header | RecordKey):
        return key
    return checked_name(f"{what}: key", key)


def value_shown(value: Value, keys: Keys, message: Message) -> str:
    """A key's value as a trail tells it."""
    try:
        found = value(keys, message)
    except Malformed as error:
        return str(error)
    return "not there" if found is None else printable(repr(found), 80)
