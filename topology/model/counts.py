"""The places a message can end in, counted per view and partition, durable with the progress."""

from dataclasses import dataclass, fields

import orjson

MOST = 2**63 - 1
"""What a count says that is this or more: what is stored of it has 64 bits."""


def saturated(count: int) -> int:
    """A count as it is stored and told."""
    return min(count, MOST)


@dataclass(slots=True)
class Counts:
    """Counts the events that a view received, by where they are now.

    `received` is the sum of the places from `processed` to `redriven`; the counts after these stand
    apart from the sum. A late event whose stream is to be rebuilt is late until then. A count stops
    at 2^63 - 1, in sums too.

    Attributes:
        received: all events.
        processed: handled in order.
        passed: passed by in order, as the view does not accept their kind.
        duplicate: discarded.
        waiting: in a buffer.
        late: came after their sequence was skipped.
        failed: the handler failed; the error log has them.
        parked: set aside in order.
        redelivering: in the redelivery topic.
        dead: given up; in the dead topic.
        redriven: given up and put back. Such an event is received once more, and so is in another
            place too.
        skipped: sequences that were given up.
        conflicts: duplicates whose body differs from that of the waiting event.
        reopened: how often a closed stream was started again.
        dropped: how often a closed stream was forgotten.
        written: records of the view's output topic.
        rebuilt: how often a stream was rebuilt.
        unrouted: messages of the handler that no rule gave a destination.
    """

    received: int = 0
    processed: int = 0
    passed: int = 0
    duplicate: int = 0
    waiting: int = 0
    late: int = 0
    failed: int = 0
    parked: int = 0
    redelivering: int = 0
    dead: int = 0
    redriven: int = 0
    skipped: int = 0
    conflicts: int = 0
    reopened: int = 0
    dropped: int = 0
    written: int = 0
    rebuilt: int = 0
    unrouted: int = 0

    @property
    def accounted(self) -> int:
        """The sum of the places; it equals `received`."""
        places = self.processed + self.passed + self.duplicate + self.waiting
        places += self.late + self.failed + self.parked
        return places + self.redelivering + self.dead + self.redriven

    @property
    def came(self) -> int:
        """How many events were received from the input: one that was put back came once."""
        return self.received - self.redriven

    def __add__(self, other: "Counts") -> "Counts":
        return Counts(
            *(saturated(getattr(self, f.name) + getattr(other, f.name)) for f in fields(Counts))
        )


_PLACES = tuple(f.name for f in fields(Counts))


def encode_counts(counts: Counts, position: int | None = None) -> bytes:
    """The row of a view's counts. position: the input offset up to which they count."""
    row = {name: count for name in _PLACES if (count := getattr(counts, name))}
    if position is not None:
        row["position"] = position
    return orjson.dumps(row)


def decode_counts(row: bytes | None) -> Counts:
    """The counts of a row; zeros where there is none."""
    if row is None:
        return Counts()
    return Counts(**{k: v for k, v in orjson.loads(row).items() if k in _PLACES})


def position_of(row: bytes | None) -> int | None:
    """The input offset up to which the counts of a row count, where it says so."""
    found: int | None = None if row is None else orjson.loads(row).get("position")
    return found


def left_behind(row: bytes | None, position: int) -> int | None:
    """The input offset from which on a view has missed what others have read up to `position`:
    workers whose topology did not have it had the partition meanwhile. None if it missed nothing.

    row: of its counts.
    """
    stood = position_of(row)
    return stood if stood is not None and stood < position else None
