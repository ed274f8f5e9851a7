"""A command to a view, and what came of it, as values."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import NoneType
from typing import Any

import orjson

from topology.errors import described


@dataclass(frozen=True, slots=True)
class Command:
    """name: of the command. who: said so, for the audit topic. sequence: of `skip`.

    force: do it although something is lost by it. dry_run: of `redrive`, only say what would be.
    id: that the record of what was done has too. everywhere: it goes to all partitions, as it is
    not known which one has the stream. A sequence that does not fit into 64 bits raises ValueError.
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

    def __post_init__(self) -> None:
        if isinstance(self.sequence, int) and not -(2**63) <= self.sequence < 2**63:
            raise ValueError(f"sequence: {self.sequence.bit_length()} bits do not fit into 64")


def encode_command(command: Command) -> bytes:
    """The value of a record in a view's commands topic."""
    return orjson.dumps(command)


def decode_command(value: bytes | None) -> Command:
    """The command of such a record. Raises ValueError if it is none."""
    try:
        found = orjson.loads(value or b"")
        command = Command(**found)
    except (TypeError, ValueError) as error:
        raise ValueError(f"this is no command: {described(error)}") from None
    for field, types in _TYPES.items():
        if not isinstance(getattr(command, field), types):
            raise ValueError(f"this is no command: {field} is {getattr(command, field)!r}")
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
}


@dataclass(frozen=True, slots=True)
class Result:
    """done: whether it was done. message: for who gave the command. facts: the same, as JSON."""

    done: bool
    message: str
    facts: Mapping[str, Any]


class Refused(Exception):
    """Why a command is not done, and what to do instead."""
