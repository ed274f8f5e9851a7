"""Whether what is given to `Topology.source` is right."""

from topology.declaration.orders import Order, OwnOrder, StreamOrder, contiguous
from topology.model.errors import DeclarationError
from topology.model.names import plain_function
from topology.model.printable import printable

PARTITIONS = 100_000
"""The most partitions of a source."""


def check_partitions(name: str, topics: tuple[str, ...], keyed: bool, partitions: int) -> None:
    """Whether a source may have so many partitions, and be keyed. Raises DeclarationError."""
    if not isinstance(keyed, bool):
        raise DeclarationError(f"source {name!r}: keyed={keyed!r}; use True or False")
    if keyed and len(topics) > 1:
        raise DeclarationError(
            f"source {name!r}: keyed=True takes one topic; several are merged by re-keying, "
            "so leave keyed out"
        )
    whole = isinstance(partitions, int) and not isinstance(partitions, bool)
    if not whole or not 1 <= partitions <= PARTITIONS:
        raise DeclarationError(
            f"source {name!r}: partitions={partitions!r} must be at least 1, {PARTITIONS} at most"
        )


def checked_sequence(name: str, sequence: StreamOrder | Order | None) -> StreamOrder:
    """What orders a source's events: contiguous numbers unless given."""
    if sequence is None:
        sequence = contiguous()
    if isinstance(sequence, StreamOrder):
        return sequence
    if isinstance(sequence, type) or not isinstance(sequence, Order):
        raise DeclarationError(
            f"source {name!r}: sequence={sequence!r}; use contiguous(…), linked(…), "
            "monotonic(…), or an object with a method follows(event, last) of yours"
        )
    given = f"source {name!r}: sequence={printable(repr(sequence))}: its method follows"
    plain_function(given, sequence.follows, "event", "last")
    return OwnOrder(sequence)
