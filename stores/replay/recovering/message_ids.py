"""Ids of messages: those of one origin partition are ranges of offsets, others are kept one by one.

An id is `site/topic/partition/offset/number` (an output of a router) or an origin without the
number. A router publishes what came of one partition in its order: where a topic has an id of an
origin, it will have none of that origin that is lower.
"""

from base64 import b64decode, b64encode
from collections.abc import Mapping
from typing import Any, NamedTuple

from topology.ordered_commit.offset_ranges import HIGHEST, OffsetRanges

_NOT_SITES = {"stream", "producer", "delivery", "digest"}


class Origin(NamedTuple):
    """What an id says: whose offset, which of its outputs; ordered: whether offsets ascend."""

    partition: str
    offset: int
    number: int
    ordered: bool


def origin_of(id: str) -> Origin | None:
    """Read an id; None: it has no offset."""
    parts = id.split("/")
    if len(parts) not in (4, 5) or not all(map(_is_number, parts[3:])):
        return None
    partition = "/".join(parts[:3])
    number = int(parts[4]) if len(parts) == 5 else -1
    return Origin(partition, int(parts[3]), number, _is_ordered(partition))


def _is_ordered(partition: str) -> bool:
    site, _, number = partition.split("/")
    return site not in _NOT_SITES and _is_number(number)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and str(int(text[:20])) == text and int(text) < HIGHEST


class MessageIds:
    """A set of ids."""

    def __init__(self) -> None:
        self._ranges: dict[str, dict[int, OffsetRanges]] = {}
        self._others: set[str] = set()

    def add(self, id: str) -> None:
        """Add one."""
        if (origin := origin_of(id)) is None:
            self._others.add(id)
            return
        ranges = self._ranges.setdefault(origin.partition, {})
        ranges.setdefault(origin.number, OffsetRanges()).add(origin.offset, origin.offset + 1)

    def __contains__(self, id: str) -> bool:
        if (origin := origin_of(id)) is None:
            return id in self._others
        ranges = self._ranges.get(origin.partition, {}).get(origin.number)
        return ranges is not None and origin.offset in ranges

    def discard(self, id: str) -> None:
        """Take one out, if it is there."""
        self._others.discard(id)
        if id in self and (origin := origin_of(id)) is not None:
            left = OffsetRanges()
            for start, end in self._ranges[origin.partition][origin.number]:
                inside = start <= origin.offset < end
                cuts = (start, origin.offset, origin.offset + 1, end) if inside else (start, end)
                for low, high in zip(cuts[::2], cuts[1::2], strict=True):
                    if low < high:
                        left.add(low, high)
            self._ranges[origin.partition][origin.number] = left

    def ordered(self) -> set[str]:
        """The origin partitions of those ids whose offsets ascend."""
        return {each for each in self._ranges if _is_ordered(each)}

    def forget_before(self, id: str) -> None:
        """Forget what is lower than this and of its origin: it does not come any more."""
        origin = origin_of(id)
        if origin is None or not origin.ordered or origin.partition not in self._ranges:
            return
        numbers = self._ranges[origin.partition]
        for number, ranges in list(numbers.items()):
            ranges.trim(origin.offset)
            if not ranges:
                del numbers[number]
        if not numbers:
            del self._ranges[origin.partition]

    def __len__(self) -> int:
        """How many ranges and ids are kept."""
        kept = sum(len(each) for numbers in self._ranges.values() for each in numbers.values())
        return kept + len(self._others)

    def to_json(self) -> dict[str, Any]:
        """The ids as a JSON object."""
        ranges = {
            partition: {str(n): b64encode(each.encode()).decode() for n, each in numbers.items()}
            for partition, numbers in self._ranges.items()
        }
        return {"ranges": ranges, "others": sorted(self._others)}

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> "MessageIds":
        """Read what `to_json` wrote."""
        made = cls()
        made._others = set(found["others"])
        for partition, numbers in found["ranges"].items():
            made._ranges[partition] = {
                int(number): OffsetRanges.decode(b64decode(each))
                for number, each in numbers.items()
            }
        return made
