"""What came of a view's rebuild, in numbers."""

from dataclasses import asdict, dataclass, field, fields
from typing import Any

REASONS = 20
"""Reports of failures that are kept."""


@dataclass(slots=True)
class Tally:
    """Events and streams of one view.

    streams: that were rebuilt. processed, passed, failed, duplicate: events, as in `Counts`.
    skipped: sequences that are not in the history. missing: of them, those that the live view had;
    absent: streams of which the history has nothing, though the live view had them. unplaced:
    streams that were dropped, of which it does not say where they began anew. parked: streams that
    a failed event sets aside, so that they end before it. late: events that no start or end of a
    stream has room for. malformed, unknown: messages that the inspector finds no event in.
    outputs: records that the handler's row changes make; records: what is left of them when each
    stream's are made one. tables: that are written. reports: of failures, the first ones.
    """

    streams: int = 0
    processed: int = 0
    passed: int = 0
    failed: int = 0
    duplicate: int = 0
    skipped: int = 0
    missing: int = 0
    absent: int = 0
    unplaced: int = 0
    parked: int = 0
    late: int = 0
    malformed: int = 0
    unknown: int = 0
    outputs: int = 0
    records: int = 0
    tables: list[str] = field(default_factory=list)
    reports: list[str] = field(default_factory=list)

    @property
    def incomplete(self) -> bool:
        """Whether the history lacks what the live view had."""
        return bool(self.missing or self.absent or self.unplaced)

    def add(self, other: "Tally") -> None:
        """Add another part's numbers."""
        for each in fields(self):
            if isinstance(getattr(self, each.name), int):
                setattr(self, each.name, getattr(self, each.name) + getattr(other, each.name))
        self.tables = sorted({*self.tables, *other.tables})
        self.reports = (self.reports + other.reports)[:REASONS]

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)
