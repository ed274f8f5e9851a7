"""Names of units: by the application, by the system, or by administration."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from stores.units.errors import UnitError
from topology.model.printable import is_unicode, printable

LONGEST_NAME = 249
"""Bytes of a unit's name in UTF-8, at most."""
_SYSTEM = "unit-"
_RANDOM_BITS = 80


def checked_name(name: str) -> str:
    """The name, if a unit may bear it.

    Args:
        name: 1 to 249 bytes of printable text.

    Raises:
        UnitError: it is empty, too long, or has characters that cannot be shown.
    """
    if name and name.isprintable() and is_unicode(name) and len(name.encode()) <= LONGEST_NAME:
        return name
    raise UnitError(
        f"{printable(name)!r} cannot name a unit: a name has 1 to {LONGEST_NAME} bytes of text"
        " without control characters; choose another, or leave it to the system"
    )


def system_name(now: float, random: int) -> str:
    """A name by the system: unique, sortable by its time, for others to join.

    Args:
        now: seconds since 1970.
        random: at least 80 random bits, for instance `secrets.randbits(80)`.
    """
    return f"{_SYSTEM}{int(now * 1000):012x}-{random % (1 << _RANDOM_BITS):020x}"


def named_at(name: str) -> float | None:
    """When the system gave a name, in seconds since 1970; None if the system did not give it."""
    time, _, random = name.removeprefix(_SYSTEM).partition("-")
    if not name.startswith(_SYSTEM) or len(time) != 12 or len(random) != 20:
        return None
    try:
        return int(time, 16) / 1000 if int(random, 16) >= 0 else None
    except ValueError:
        return None


@dataclass(frozen=True, slots=True)
class DefaultUnit:
    """What the administration of a connection says of messages that name no unit.

    Attributes:
        of: message, name of the producer's session → the unit's name, or None for ungrouped.
    """

    of: Callable[[Any, str], str | None]

    def name_of(self, message: Any, session: str) -> str | None:
        """The unit of a message, None if it is ungrouped.

        Args:
            message: what is sent, or was.
            session: what the system names the producer's session, by `system_name`.

        Raises:
            UnitError: a function of the administration returned no name.
        """
        name = self.of(message, session)
        return None if name is None else checked_name(name)


def unit_per_session() -> DefaultUnit:
    """Each producer's session is a unit, which the system names."""
    return DefaultUnit(lambda _, session: session)


def unit_named(name: str) -> DefaultUnit:
    """All messages are of one unit.

    Args:
        name: its name.

    Raises:
        UnitError: no unit may bear that name.
    """
    checked_name(name)
    return DefaultUnit(lambda *_: name)


def unit_by(function: Callable[[Any], str | None]) -> DefaultUnit:
    """A function of the message names its unit.

    Args:
        function: message → name, or None for an ungrouped message.
    """
    return DefaultUnit(lambda message, _: function(message))


DEFAULT = "UNITS_DEFAULT"
"""The variable by which administration names units for producers whose code does not."""


def read_default(text: str) -> DefaultUnit:
    """What administration says of a connection, in words.

    Args:
        text: `session`, `name:NAME`, or `header:NAME` for the value of an attribute.

    Raises:
        UnitError: it says nothing of that kind.
    """
    kind, _, name = text.partition(":")
    if text == "session":
        return unit_per_session()
    if kind == "name":
        return unit_named(name)
    if kind == "header" and name:
        return unit_by(lambda message: message.attributes.get(name))
    raise UnitError(f"{printable(text)!r} names no units: write session, name:NAME or header:NAME")


def administered(environment: Mapping[str, str]) -> DefaultUnit:
    """The default of this process's connections: ungrouped where UNITS_DEFAULT is not set.

    Args:
        environment: of the process.

    Raises:
        UnitError: the variable says something else.
    """
    return read_default(text) if (text := environment.get(DEFAULT)) else unit_by(lambda _: None)
