"""What can be told of a unit: who holds it, since when, what waits, what helps."""

from dataclasses import dataclass

from topology.model.printable import printable


@dataclass(frozen=True, slots=True)
class UnitStatus:
    """A unit, or an ungrouped message, as it is now.

    Attributes:
        unit: its name; an ungrouped message is named by its offset.
        state: held, parked, dead, settling, paused, empty, uncommitted, arriving, delayed,
            rejoining, unadmitted or ready: the first of these that holds.
        marked: whether it is parked, paused or dead, whatever its state.
        session: who holds it.
        since: seconds since 1970 at which it was taken, returned or parked; None if it is empty.
        until: when the state ends by itself, in seconds since 1970; None if it does not.
        held: offsets that the session holds, in order.
        waiting: messages that wait.
        head: the offset of the first that waits.
        redeliveries: how often the first that is held, or else the head, was rolled back.
        reason: why it is parked, paused or dead.
        helps: what helps, as a sentence.
    """

    unit: str
    state: str
    marked: bool
    session: str | None
    since: float | None
    until: float | None
    held: tuple[int, ...]
    waiting: int
    head: int | None
    redeliveries: int
    reason: str
    helps: str


_HELPS = {
    "held": "session {session} completes what it holds, or is closed.",
    "parked": "find out why its head fails, then redrive it, or move or delete its messages.",
    "dead": "nothing has to be done; redrive it if what follows is to be delivered again.",
    "settling": "what was completed is being made durable; if that takes long, look at the broker.",
    "paused": "resume it.",
    "empty": "nothing has to be done.",
    "uncommitted": "its producer commits or aborts the send.",
    "arriving": "the member that it comes from works off what it has; look at the unit there."
    " If retention has deleted its record there, delete the message at its head here.",
    "delayed": "wait until the delay is over.",
    "rejoining": "sessions of the former owner rejoin, or their leases end.",
    "unadmitted": "open a session whose filter admits its head, or move or delete that message.",
    "ready": "a session with room asks for more; if none does, open one.",
}


def told(state: str, session: str | None, unit: str) -> str:
    """What helps a unit in a state.

    Args:
        state: as in `UnitStatus`.
        session: who holds it.
        unit: its name.
    """
    return f"unit {printable(unit)}: " + _HELPS[state].format(session=printable(session))
