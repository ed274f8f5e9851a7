"""A consumer's session in memory."""

from stores.units.queue.message import Filter
from stores.units.queue.unit import Unit, UnitKey


class Session:
    """What a session holds.

    held: delivery number → the unit. units: those that only it may have now. owned: (sort, offset),
    a heap, of heads of these.
    """

    __slots__ = ("filter", "held", "name", "owned", "prefetch", "units")

    def __init__(self, name: str, chosen: Filter, prefetch: int) -> None:
        self.name = name
        self.filter = chosen
        self.prefetch = prefetch
        self.held: dict[int, Unit] = {}
        self.units: dict[UnitKey, Unit] = {}
        self.owned: list[tuple[float, int]] = []
