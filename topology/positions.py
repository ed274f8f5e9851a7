"""Where a view reads: durable in its table, in the commit unit of what was read."""

from dataclasses import dataclass
from typing import Any

import orjson


@dataclass(slots=True)
class Positions:
    """The positions of one view in one partition.

    input: the input offset to read on from, where the view reads apart from the other views of its
    source; None where it reads together with them, whose position is the group's offset.
    halted: why the view takes no more input, None while it does. redelivered: the offset to read on
    from in the view's redelivery topic. commands: the same of its commands topic. began: where the
    view began, if it was added when the others were under way and retention had taken the first
    messages. missed: how many events it did not see by that, None until it reads with the others.
    """

    input: int | None = None
    halted: str | None = None
    redelivered: int = 0
    commands: int = 0
    began: int | None = None
    missed: int | None = None


def encode_positions(positions: Positions) -> bytes | None:
    """The row of a view's positions, None where there is nothing to say."""
    row: dict[str, Any] = {}
    if positions.input is not None:
        row["input"] = positions.input
    if positions.halted is not None:
        row["halted"] = positions.halted
    if positions.redelivered:
        row["redelivered"] = positions.redelivered
    if positions.commands:
        row["commands"] = positions.commands
    if positions.began is not None:
        row["began"] = positions.began
    if positions.missed is not None:
        row["missed"] = positions.missed
    return orjson.dumps(row) if row else None


def decode_positions(row: bytes | None) -> Positions:
    """The positions of a row; that of a view that reads with the others where there is none."""
    return Positions() if row is None else Positions(**orjson.loads(row))
