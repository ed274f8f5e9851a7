"""The tables of a router, as data: keymaps (key → tags) and outbound tables (tag → target)."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from types import MappingProxyType
from typing import Any

import orjson

from topology.model.errors import DeclarationError
from topology.model.names import checked_name
from topology.model.printable import is_unicode, printable
from topology.routing.introspect.key_values import LONGEST, key_text

MOST_ENTRIES = 10_000_000
"""Entries of a table."""
MOST_TARGETS = 1000
"""Tags of a key; destinations, or rules, of a tag."""


class Keymap:
    """A table of routing tags by key, which does not change.

    Args:
        name: the table's name.
        entries: key → tag or tags; or rows of (key, tag), in which a key may come again with
            another tag. Keys and tags are text, numbers or truth values; a set has no order, so
            what comes of one is sorted.
        otherwise: tags of keys that are not in the table.

    Raises:
        DeclarationError: an entry is wrong, comes twice, or there are too many.
    """

    def __init__(
        self,
        name: str,
        entries: Mapping[Any, Any] | Iterable[tuple[Any, Any]],
        *,
        otherwise: str | Iterable[str] = (),
    ) -> None:
        self.name = checked_name("keymap", name)
        what = f"keymap {name!r}"
        self.found: dict[str, tuple[str, ...]] = {}
        for number, (key, given) in enumerate(_rows(what, entries), 1):
            if number > MOST_ENTRIES:
                raise DeclarationError(f"{what}: it has more than {MOST_ENTRIES} entries")
            text = checked_text(f"{what}, entry {number}: key", key)
            tags = checked_tags(f"{what}, key {printable(text)!r}", given)
            before = self.found.get(text, ())
            if isinstance(entries, Mapping) and text in self.found:
                raise DeclarationError(f"{what}: the key {printable(text)!r} is there twice")
            self.found[text] = checked_tags(f"{what}, key {printable(text)!r}", before + tags)
        self.otherwise = checked_tags(f"{what}: otherwise", otherwise, none=True)

    @property
    def entries(self) -> Mapping[str, tuple[str, ...]]:
        """Key → tags, read-only."""
        return MappingProxyType(self.found)

    @cached_property
    def digest(self) -> str:
        """A digest of the content, the same in every process."""
        data = orjson.dumps([self.name, self.otherwise, self.found], option=orjson.OPT_SORT_KEYS)
        return sha256(data).hexdigest()


@dataclass(frozen=True, slots=True)
class Target:
    """What a tag leads to: destinations, further rules, or both.

    Attributes:
        to: the destinations, in order.
        then: the rules that look at the message next, in order.
    """

    to: tuple[str, ...] = ()
    then: tuple[str, ...] = ()


def checked_target(what: str, to: object, then: object) -> Target:
    """The target, each name in it once. Raises DeclarationError."""
    return Target(_names(f"{what}: destination", to), _names(f"{what}: rule", then))


def outbound_table(
    name: str, entries: Mapping[str, object] | Iterable[tuple[Any, Any, Any]]
) -> Mapping[str, Target]:
    """Make an outbound table.

    Args:
        name: the table's name, for errors.
        entries: tag → `Target`, a destination, or several; or rows of (tag, destination or None,
            rule or None), in which a tag may come again.

    Returns:
        Tag → target, read-only.

    Raises:
        DeclarationError: an entry is wrong or comes twice.
    """
    what = f"outbound table {name!r}"
    found: dict[str, Target] = {}
    if isinstance(entries, Mapping):
        for tag, given in entries.items():
            target = given if isinstance(given, Target) else Target(given)  # type: ignore[arg-type]
            found[checked_text(f"{what}: tag", tag)] = _filled(what, tag, target.to, target.then)
    else:
        several: dict[str, tuple[list[str], list[str]]] = {}
        for row in in_order(entries):
            if not _is_row(row, 3):
                shown = printable(repr(row))
                raise DeclarationError(f"{what}: a row is (tag, destination, rule), not {shown}")
            to, then = several.setdefault(checked_text(f"{what}: tag", row[0]), ([], []))
            to += [] if row[1] is None else [row[1]]
            then += [] if row[2] is None else [row[2]]
        found = {tag: _filled(what, tag, *target) for tag, target in several.items()}
    if len(found) > MOST_ENTRIES:
        raise DeclarationError(f"{what}: it has more than {MOST_ENTRIES} entries")
    return MappingProxyType(found)


def in_order(several: Iterable[Any]) -> Iterable[Any]:
    """What comes in an order of its own, as a set does in each process, sorted; else as it is."""
    return sorted(several, key=repr) if isinstance(several, set | frozenset) else several


def checked_text(what: str, value: object) -> str:
    """A key or tag as text. Raises DeclarationError."""
    if isinstance(value, bool | int | float | str) and value != "":
        text = key_text(value)
        if len(text) <= LONGEST and (is_unicode(text)):
            return text
    raise DeclarationError(
        f"{what} {printable(repr(value))}: give text of 1 to {LONGEST} characters, or a number"
    )


def checked_tags(what: str, given: object, *, none: bool = False) -> tuple[str, ...]:
    """One tag or several, each once. Raises DeclarationError."""
    several = in_order(given) if isinstance(given, list | tuple | set | frozenset) else (given,)
    tags = tuple(checked_text(f"{what}: tag", tag) for tag in several)
    if not tags and not none:
        raise DeclarationError(f"{what}: it has no tag; give one, or leave the key out")
    if len(tags) > MOST_TARGETS:
        raise DeclarationError(f"{what}: it has {len(tags)} tags; the limit is {MOST_TARGETS}")
    if len(tags) > 1 and len(set(tags)) < len(tags):
        twice = next(tag for tag in tags if tags.count(tag) > 1)
        raise DeclarationError(f"{what}: the tag {printable(twice)!r} is there twice")
    return tags


def _filled(what: str, tag: object, to: object, then: object) -> Target:
    target = checked_target(f"{what}, tag {printable(tag)!r}", to, then)
    if not target.to and not target.then:
        raise DeclarationError(
            f"{what}, tag {printable(tag)!r}: it leads nowhere; give destinations or rules, or "
            "leave the tag out"
        )
    return target


def _names(what: str, given: object) -> tuple[str, ...]:
    several = given if isinstance(given, list | tuple) else (given,)
    if len(several) > MOST_TARGETS:
        raise DeclarationError(f"{what}s: {len(several)} of them; the limit is {MOST_TARGETS}")
    names = tuple(checked_name(what, name) for name in several)
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise DeclarationError(f"{what} {twice!r}: it is there twice")
    return names


def _rows(what: str, entries: object) -> Iterable[tuple[Any, Any]]:
    if isinstance(entries, Mapping):
        yield from entries.items()
    elif isinstance(entries, Iterable) and not isinstance(entries, str | bytes):
        for number, row in enumerate(in_order(entries), 1):
            if not _is_row(row, 2):
                shown = printable(repr(row))
                raise DeclarationError(f"{what}, entry {number}: a row is (key, tag), not {shown}")
            yield tuple(row)
    else:
        raise DeclarationError(f"{what}: give a mapping key → tags, or rows of (key, tag)")


def _is_row(row: object, length: int) -> bool:
    return isinstance(row, Sequence) and not isinstance(row, str | bytes) and len(row) == length
