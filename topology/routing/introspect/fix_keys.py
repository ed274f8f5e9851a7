"""Routing keys out of FIX messages: tag=value, each ended by SOH."""

from collections.abc import Iterable, Mapping

from topology.model.errors import DeclarationError, Malformed
from topology.model.event import Message
from topology.model.printable import printable
from topology.routing.introspect.key_module import (
    Introspect,
    KeyModule,
    Memo,
    checked_every,
    checked_keys,
)
from topology.routing.introspect.key_values import MOST_VALUES, Keys, checked_content, collected

LENGTHS = {
    **{90: 91, 93: 89, 95: 96, 212: 213, 348: 349, 350: 351, 352: 353, 354: 355, 356: 357},
    **{358: 359, 360: 361, 362: 363, 364: 365, 445: 446, 618: 619, 621: 622, 1184: 1185},
    **{1277: 1278, 1280: 1281, 1397: 1398, 1401: 1402, 1403: 1404, 1468: 1469},
}
"""Tag of a length → tag of the data field behind it, which may contain the separator."""
_HIGHEST = 999_999


class FixKeys(KeyModule):
    """Extracts routing keys from FIX tag=value messages.

    A data field with a length in front is skipped by that length, so that nothing in it is taken
    for a tag.

    Args:
        keys: name of the key → the tag's number.
        every: keys that take all occurrences, as of a repeating group; others take the first.
        separator: the byte that ends a field.
        reads: the format's name.

    Raises:
        DeclarationError: a name, tag or option is wrong.
    """

    def __init__(
        self,
        keys: Mapping[str, int],
        *,
        every: Iterable[str] = (),
        separator: bytes = b"\x01",
        reads: str = "fix",
    ) -> None:
        self.keys = checked_keys("FixKeys", keys)
        for name, tag in self.keys.items():
            if isinstance(tag, bool) or not isinstance(tag, int) or not 1 <= tag <= _HIGHEST:
                raise DeclarationError(
                    f"FixKeys: key {name!r}: {tag!r} is no tag; tags are 1 to {_HIGHEST}"
                )
        if not isinstance(separator, bytes) or len(separator) != 1 or separator in b"=0123456789":
            raise DeclarationError(f"FixKeys(separator={separator!r}): give one byte")
        self.every = checked_every("FixKeys", every, keys)
        self.separator = separator
        self.names, self.reads = tuple(self.keys), reads

    def compile(self) -> Introspect:
        """Return the module as one function of a message."""
        wanted: dict[int, list[str]] = {}
        for name, tag in self.keys.items():
            wanted.setdefault(tag, []).append(name)
        every, separator = self.every, self.separator

        def introspect(message: Message, memo: Memo) -> Keys:
            found: dict[str, list[str]] = {}
            value = checked_content(message.value)
            at = due = length = 0
            while at < len(value):
                equals = value.find(b"=", at, at + 8)
                tag = _tag(value[at:equals] if equals > 0 else b"", at)
                at = equals + 1
                if tag == due:
                    stop = at + length
                    if value[stop : stop + 1] != separator:
                        raise Malformed(f"FIX field {tag} is not as long as the one before says")
                else:
                    stop = value.find(separator, at)
                    if stop < 0:
                        raise Malformed(f"FIX field {tag} does not end with the separator")
                due = LENGTHS.get(tag, 0)
                if due:
                    length = _length(value[at:stop], tag)
                for name in wanted.get(tag, ()):
                    values = found.setdefault(name, [])
                    if len(values) <= MOST_VALUES:
                        values.append(value[at:stop].decode("utf-8", "replace"))
                at = stop + 1
            return collected(every, found)

        return introspect


def _tag(text: bytes, at: int) -> int:
    if not text.isdigit() or text[0] == 48:
        shown = printable(text.decode("ascii", "replace"))
        raise Malformed(f"the value is not FIX: no tag=value at byte {at} ({shown!r})")
    return int(text)


def _length(text: bytes, tag: int) -> int:
    if not text.isdigit() or len(text) > 8:
        raise Malformed(f"FIX field {tag} is no length")
    return int(text)
