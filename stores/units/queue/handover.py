"""What a unit that moves to another member leaves in the logs, so that its order holds there."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Handover:
    """A record by which a unit goes from one member to another.

    The path service writes *leaves* and *arrives* in one transaction, when no producer has the old
    route any more. Each subscriber works off what the old member has before *leaves*, and then
    writes *handed* to the new member: what comes there behind *arrives* waits for that.

    Attributes:
        kind: leaves: the unit's last record on its old member. arrives: its first one on the new
            member. handed: a subscriber has nothing left of it on the old member.
        epoch: of the move.
        other: the member where it goes to, or comes from.
    """

    kind: Literal["leaves", "arrives", "handed"]
    epoch: int
    other: int


@dataclass(frozen=True, slots=True)
class MovedAway:
    """A unit that has left a member: what is sent there late is refused.

    Attributes:
        offset: of the record with which it left.
        epoch: of the move; a message by a later route is not late.
        to: where it went.
        back: whether it has come back since; what is sent straight is not late then.
    """

    offset: int
    epoch: int
    to: int
    back: bool = False
