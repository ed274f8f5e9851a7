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
    from in the view's redelivery topic. ahead: what was taken behind that already: bit n stands for
    the offset `redelivered` + n. commands: the same of its commands topic. began: where the
    view began, if it was added when the others were under way and retention had taken the first
    messages. missed: how many events it did not see by that, None until it reads with the others.
    """

    input: int | None = None
    halted: str | None = None
    redelivered: int = 0
    commands: int = 0
    began: int | None = None
    missed: int | None = None
    ahead: int = 0

    def took(self, offset: int) -> bool:
        """Whether a record of the redelivery topic was taken already."""
        beyond = offset - self.redelivered
        return beyond < 0 or bool(self.ahead >> beyond & 1)

    def take(self, offset: int) -> None:
        """A record of the redelivery topic is taken."""
        if (beyond := offset - self.redelivered) >= 0:
            self.ahead |= 1 << beyond

    def move(self, offset: int) -> None:
        """All records of the redelivery topic before an offset are taken."""
        if (beyond := offset - self.redelivered) > 0:
            self.redelivered, self.ahead = offset, self.ahead >> beyond


def encode_positions(positions: Positions) -> bytes | None:
    """The row of a view's positions, None where there is nothing to say."""
    row: dict[str, Any] = {}
    if positions.input is not None:
        row["input"] = positions.input
    if positions.halted is not None:
        row["halted"] = positions.halted
    if positions.redelivered:
        row["redelivered"] = positions.redelivered
    if positions.ahead:
        row["ahead"] = f"{positions.ahead:x}"
    if positions.commands:
        row["commands"] = positions.commands
    if positions.began is not None:
        row["began"] = positions.began
    if positions.missed is not None:
        row["missed"] = positions.missed
    return orjson.dumps(row) if row else None


def decode_positions(row: bytes | None) -> Positions:
    """The positions of a row; that of a view that reads with the others where there is none."""
    if row is None:
        return Positions()
    found = orjson.loads(row)
    return Positions(**{**found, "ahead": int(found.get("ahead", "0"), 16)})
