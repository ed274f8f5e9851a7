"""Read an output topic as its users do, and say whether it is right."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import orjson


@dataclass(slots=True)
class Audit:
    """What was found. wrong_end: streams whose last sequence is not the input's. wrong_changes:
    records with other row changes than the event asks for."""

    records: int = 0
    gaps: int = 0
    duplicates: int = 0
    streams: int = 0
    wrong_end: int = 0
    wrong_changes: int = 0

    def problem(self, *, once: bool = True) -> str:
        """What is wrong, in words; empty if nothing is. once: whether repeats are wrong."""
        found = {
            "streams that do not end where the input does": self.wrong_end,
            "records after a gap": self.gaps,
            "records twice": self.duplicates if once else 0,
            "records with other row changes": self.wrong_changes,
        }
        return ", ".join(f"{count:,} {what}" for what, count in found.items() if count)


Changes = Callable[[int, int], object]
"""(stream, sequence) → the row changes that its record has to have."""


def audit(
    values: Iterable[bytes], ends: Mapping[str, int], changes: Changes | None = None
) -> Audit:
    """Check records in the order of their partitions: each stream 1, 2, 3 … up to its end.

    values: an event's own JSON (`stream`, `seq`) or a view's row changes (`stream`, `sequence`).
    changes: which these have to be, where they are looked at.
    """
    result, last = Audit(), dict[str, int]()
    for value in values:
        content = orjson.loads(value)
        stream = str(content["stream"])
        sequence: int = content["sequence"] if "changes" in content else content["seq"]
        before = last.get(stream, 0)
        result.records += 1
        if changes is not None and content["changes"] != changes(int(stream), sequence):
            result.wrong_changes += 1
        if sequence <= before:
            result.duplicates += 1
            continue
        if sequence != before + 1:
            result.gaps += 1
        last[stream] = sequence
    result.streams = len(last)
    result.wrong_end = sum(
        last.get(stream, 0) != ends.get(stream, 0) for stream in last.keys() | ends.keys()
    )
    return result
