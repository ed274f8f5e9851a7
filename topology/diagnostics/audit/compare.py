"""Compare what streams said in one run with what they said in another, a rebuild or a replica."""

from dataclasses import dataclass
from typing import Any

from topology.diagnostics.audit.report import AuditReport

Saved = dict[str, dict[str, list[Any]]]
"""View → stream → [records, last sequence, hash as hex]."""


@dataclass(frozen=True, slots=True)
class Difference:
    """A stream of a view that did not say the same."""

    view: str
    stream: str
    what: str

    def __str__(self) -> str:
        return f"view {self.view}, stream {self.stream}: {self.what}"


def saved(report: AuditReport) -> dict[str, Any]:
    """What to keep of a run, for JSON."""
    views: Saved = {
        view.name: {
            stream: [chain.records, chain.last, chain.hash.hex()]
            for stream, chain in sorted(view.hashes.items())
        }
        for view in report.views
    }
    return {"topology": report.topology, "views": views}


def saved_views(other: Any) -> Saved:
    """What `saved` kept. Raises ValueError for what it has not made."""
    views = other.get("views") if isinstance(other, dict) else None
    if isinstance(views, dict) and all(isinstance(each, dict) for each in views.values()):
        chains = [chain for view in views.values() for chain in view.values()]
        if all(isinstance(each, list) and len(each) == 3 for each in chains):
            return views
    raise ValueError("this is no saved audit")


def differences(report: AuditReport, other: Any) -> list[Difference]:
    """The streams that differ from what `saved` kept of another run, of the views that were
    audited.

    Raises ValueError for what `saved` has not made.
    """
    here, there = saved(report)["views"], saved_views(other)
    found: list[Difference] = []
    for view in sorted(here.keys() | there.keys() if report.whole else here):
        mine, its = here.get(view, {}), there.get(view, {})
        for stream in sorted(mine.keys() | its.keys()):
            if (what := _differs(mine.get(stream), its.get(stream))) is not None:
                found.append(Difference(view, stream, what))
    return found


def _differs(mine: list[Any] | None, its: list[Any] | None) -> str | None:
    if mine is None or its is None:
        missing, other = ("here", its) if mine is None else ("there", mine)
        number = 0 if other is None else other[0]
        return f"no outputs {missing}, {number} in the other run"
    if mine == its:
        return None
    if mine[:2] != its[:2]:
        return (
            f"{mine[0]} outputs up to sequence {mine[1]} here, "
            f"{its[0]} up to {its[1]} in the other run"
        )
    return f"the same {mine[0]} outputs up to sequence {mine[1]}, but they say something else"
