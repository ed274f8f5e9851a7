"""The words an audit ends with: what is wrong, what is lost, what is still to come."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from topology.diagnostics.audit.report import Report

LOST = ("dead", "failed", "late", "parked", "skipped")
"""Places of events that a read store lacks."""
PENDING = ("waiting", "redelivering")
"""Places of events whose turn is still to come."""


def bad_news(report: "Report") -> list[str]:
    """What is not processed and will not be by itself, as in `3 dead`."""
    found = [(sum(getattr(view.counted, name) for view in report.views), name) for name in LOST]
    found.append((sum(source.malformed for source in report.sources), "malformed"))
    said = _said(found)
    return said + [f"view {view.name} halted" for view in report.views if view.halted]


def pending(report: "Report") -> list[str]:
    """What is still to come, as in `2 waiting`."""
    found = [(sum(getattr(view.counted, name) for view in report.views), name) for name in PENDING]
    # A source is as far behind as its messages, a view as what it reads.
    found.append((sum(source.behind for source in report.sources), "not read yet"))
    behind = max((view.behind for view in report.views), default=0)
    found.append((behind, "records that a view is behind"))
    return _said(found)


def verdict(report: "Report") -> list[str]:
    """The last lines but one: whether all is in order, and whether it is complete."""
    lost, still = bad_news(report), pending(report)
    besides = f"besides, {', '.join([*lost, *still])}"
    if report.number:
        number = f"{report.number} violation{'s' if report.number > 1 else ''}; the first one:"
        return [number, f"  {report.violations[0]}", *([besides] if lost or still else ())]
    if lost:
        return [f"in order, but not complete: {', '.join([*lost, *still])}"]
    if still:
        return [f"in order so far: {', '.join(still)}"]
    return ["clean: in order and complete, every message is in one place"]


def unproved(report: "Report") -> str:
    """The last line: what this audit does not prove."""
    found = [] if report.contents else ["what handlers made of the events (--contents)"]
    found += [] if report.whole else ["the views that were not asked for"]
    found += ["what the notes above say"] if report.remarks else []
    found += ["what the read stores hold"]
    return f"not proved: {'; '.join(found)}"


def _said(found: Iterable[tuple[int, str]]) -> list[str]:
    return [f"{number:,} {name}" for number, name in found if number]
