"""What is found in a message's content: its stream, its sequence, its metadata."""

from collections import Counter
from collections.abc import Mapping
from itertools import chain
from typing import Any

from sequitur.replay.replay_file import Place, ReplayFile, of_topic
from stores.replay import FieldKind
from topology.model.errors import DeclarationError, Malformed
from topology.model.event import Message
from topology.routing.configuration import key_of, module_of
from topology.routing.introspect import FunctionKeys
from topology.routing.introspect.key_values import Keys, key_number, key_text
from topology.routing.routing_keys import Value, value_of

_ELSEWHERE = ("header", "record")
_STREAM, _SEQUENCE = "the-stream", "the-sequence"  # no fields' names

Found = tuple[str | None, int | None, Mapping[str, Any]]
"""Stream, sequence and metadata."""
_NOTHING: Found = (None, None, {})


class Contents:
    """Reads the contents of a topic's messages.

    Args:
        file: where things are.
        topic: whose messages.

    Attributes:
        counts: messages "unread": whose content cannot be read.

    Raises:
        DeclarationError: what is wrong in the file, and where.
    """

    def __init__(self, file: ReplayFile, topic: str) -> None:
        self.counts: Counter[str] = Counter()
        places = _places(file, topic)
        given = dict(of_topic(file.format, topic) or {"format": "json"})
        inside = {name: at for name, at in places.items() if not isinstance(at, dict)}
        values: dict[str, Value | str] = {
            name: value_of(key_of(name, at)) for name, at in places.items() if isinstance(at, dict)
        }
        if "function" not in given:
            given["keys"] = inside
        self._read = None
        if inside:
            module = module_of(f'format "{topic}"', given)
            self._read = module.compile()
            own = isinstance(module, FunctionKeys)
            values |= {n: str(at) if own else n for n, at in inside.items()}
        texts = {name for name, kind in file.fields.items() if kind is FieldKind.TEXT} | {_STREAM}
        self._wanted = [(name, name in texts, value) for name, value in values.items()]

    def find(self, message: Message) -> Found:
        """Find stream, sequence and metadata; a message that cannot be read has none."""
        if not self._wanted:
            return _NOTHING
        try:
            keys: Keys = {}
            if self._read is not None and message.value is not None:
                keys = self._read(message, {})
            metadata: dict[str, Any] = {}
            for name, text, value in self._wanted:
                found = keys.get(value) if isinstance(value, str) else value(keys, message)
                if found.__class__ is list:
                    found = found[0]
                if found is not None:
                    is_text = found.__class__ is str
                    metadata[name] = key_text(found) if text and not is_text else found
        except Malformed:
            self.counts["unread"] += 1
            return _NOTHING
        stream, sequence = metadata.pop(_STREAM, None), metadata.pop(_SEQUENCE, None)
        if sequence.__class__ is not int and sequence is not None:
            number = key_number(sequence)
            sequence = number if isinstance(number, int) else None
        return stream, sequence, metadata


def check_contents(file: ReplayFile) -> None:
    """Raise DeclarationError for what the file says wrong of any topic that it names."""
    paths = (each.path for each in file.field.values() if isinstance(each.path, dict))
    for topic in chain(file.replay.topics, file.stream, file.format, *paths):
        if topic not in _ELSEWHERE:
            try:
                Contents(file, topic)
            except DeclarationError as error:
                raise DeclarationError(f"{topic}: {error}") from None


def _places(file: ReplayFile, topic: str) -> dict[str, Place]:
    """Name → where it is, of what there is in this topic."""
    places: dict[str, Place] = {}
    for name, field in file.field.items():
        at: Any = field.path
        if isinstance(at, dict) and not set(at) <= set(_ELSEWHERE):
            at = of_topic(at, topic)
        if at is not None:
            places[name] = at
    if (given := of_topic(file.stream, topic)) is not None:
        places[_STREAM] = given.stream
        if given.sequence is not None:
            places[_SEQUENCE] = given.sequence
    for name, at in places.items():
        if isinstance(at, bool) or not isinstance(at, str | int | dict):
            raise DeclarationError(f"{name}: give a path, a number, or a header")
    return places
