"""A command to a view, and what came of it, as values."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import NoneType
from typing import Any

import orjson

from topology.model.errors import described
from topology.model.printable import is_unicode, printable

SIZE = 256 << 10
"""Bytes of a record that can be a command."""
_NUMBER = 2**63


@dataclass(frozen=True, slots=True)
class Command:
    """name: of the command. who: said so, for the audit topic. sequence: of `skip`.

    force: do it although something is lost by it. dry_run: only say what would be. id: that the
    record of what was done has too. everywhere: it goes to all partitions, as it is not known which
    one has the stream. given, expires: when it was given, and when it is too old to be carried out
    (ms); 0 where that is not said, and where it never is. cancels: of `cancel`, the other's
    id. why: for the record. only_missing: of `skip`, stop in front of the first event that waits.
    What no record of a command could hold raises ValueError, which names it.
    """

    name: str
    view: str
    stream: str | None = None
    sequence: int | None = None
    who: str = "unknown"
    force: bool = False
    dry_run: bool = False
    id: str = ""
    everywhere: bool = False
    given: int = 0
    expires: int = 0
    cancels: str = ""
    why: str = ""
    only_missing: bool = False

    def __post_init__(self) -> None:
        for field, types in _TYPES.items():
            given = getattr(self, field)
            # A bool is an int for Python, and none for people.
            if not isinstance(given, types) or (isinstance(given, bool) and bool not in types):
                wanted = " or ".join(each.__name__ for each in types if each is not NoneType)
                raise ValueError(
                    f"{field}={printable(repr(given))} of a command: give one of type {wanted}"
                )
            if isinstance(given, int) and not -_NUMBER <= given < _NUMBER:
                bits = given.bit_length()
                raise ValueError(f"{field} of a command: {bits} bits do not fit into 64")
            if isinstance(given, str) and not is_unicode(given):
                raise ValueError(
                    f"{field}={printable(repr(given))} of a command has surrogates, which are no "
                    "text: no event and no name has them"
                )


def encode_command(command: Command) -> bytes:
    """The value of a record in a view's commands topic."""
    return orjson.dumps(command)


def decode_command(value: bytes | None) -> Command:
    """The command of such a record. Raises ValueError if it is none.

    Fields that are not known are passed over: another version may have them.
    """
    if value is not None and len(value) > SIZE:
        raise ValueError(f"this is no command: it has {len(value)} bytes, of {SIZE} at most")
    try:
        found = orjson.loads(value or b"")
        command = Command(**{name: found[name] for name in found if name in _TYPES})
    except (TypeError, ValueError) as error:
        raise ValueError(f"this is no command: {printable(described(error))}") from None
    return command


_TYPES: dict[str, tuple[type, ...]] = {
    "name": (str,),
    "view": (str,),
    "stream": (str, NoneType),
    "sequence": (int, NoneType),
    "who": (str,),
    "force": (bool,),
    "dry_run": (bool,),
    "id": (str,),
    "everywhere": (bool,),
    "given": (int,),
    "expires": (int,),
    "cancels": (str,),
    "why": (str,),
    "only_missing": (bool,),
}


@dataclass(frozen=True, slots=True)
class CommandResult:
    """done: whether it was done. message: for who gave the command. facts: the same, as JSON.

    outcome: "carried out", "refused", "expired" or "cancelled".
    """

    done: bool
    message: str
    facts: Mapping[str, Any]
    outcome: str = ""

    def __post_init__(self) -> None:
        if not self.outcome:
            object.__setattr__(self, "outcome", "carried out" if self.done else "refused")


UNKNOWN_STREAM = "unknown_stream"
"""The fact of a result that the partition does not have the command's stream."""


class CommandRefused(Exception):
    """Why a command is not done, and what to do instead; facts: what of it programs look at."""

    def __init__(self, message: str, **facts: bool) -> None:
        super().__init__(message)
        self.facts = facts
