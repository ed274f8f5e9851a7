"""What kind of ids a source's streams have, and the one way to read an id that a person gives."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import get_args

from topology.inspectors.normalise import STREAM_LETTERS, StreamType, stream_id
from topology.model.errors import DeclarationError, Malformed

FIELDS_BYTES = 1_300
"""Of an id of several fields: a lane, which escapes it once more, leaves room for no more."""
StreamTypes = StreamType | Sequence[StreamType]


@dataclass(frozen=True, slots=True)
class StreamIds:
    """types: of each field of the id, or the one type of all. fields: how many, 0 if not known."""

    types: tuple[StreamType, ...] = ("auto",)
    fields: int = 1

    @property
    def first(self) -> StreamType:
        """The type of an id of one field."""
        return self.types[0]

    def joined(self, values: Iterable[object]) -> str:
        """One text for an id of several fields: joined by '|', which is escaped inside a field."""
        given = list(values)
        types = self.types if len(self.types) == len(given) else self.types * len(given)
        found = "|".join(
            stream_id(value, of).replace("%", "%25").replace("|", "%7C")
            for value, of in zip(given, types, strict=False)
        )
        if len(found) > STREAM_LETTERS and (size := len(found.encode())) > FIELDS_BYTES:
            raise Malformed(
                f"the stream's fields have {size} bytes together; the limit is {FIELDS_BYTES}"
            )
        return found

    def read(self, text: str) -> str:
        """The id as its events have it, of a text that is written as a producer or an event has it.

        A text that no event could have as its id is returned as it is.
        """
        parts = [text] if self.fields == 1 else text.split("|")
        if self.fields and len(parts) != self.fields:
            return text
        types = self.types if len(self.types) == len(parts) else self.types * len(parts)
        try:
            # What is escaped in a part is in no id of a type that is written anew.
            return "|".join(stream_id(p, of) for p, of in zip(parts, types, strict=False))
        except Malformed:
            return text


def checked_stream_ids(what: str, types: StreamTypes, fields: int) -> StreamIds:
    """The kind of ids that `stream_type=` declares; `what` is whose. Raises DeclarationError."""
    given = tuple(types) if isinstance(types, list | tuple) else (types,)
    for each in given:
        if each not in get_args(StreamType):
            raise DeclarationError(
                f"{what}(stream_type={types!r}): {each!r} is no type of ids; "
                "use 'auto', 'text', 'int' or 'guid'"
            )
    if len(given) not in (1, fields or 1):
        raise DeclarationError(
            f"{what}(stream_type={types!r}): give one type, or one for each of the stream's "
            f"{fields} fields"
        )
    return StreamIds(given, fields)
