"""What the workers of a view count is held against what there is."""

import pytest

from topology import Inspector, Topology
from topology.diagnostics.audit import Audit, AuditReport, AuditSnapshot
from topology.diagnostics.explain.work_tally import WorkTally
from topology.engine.state.rows import WORK
from topology.engine.state.work_status import WorkStatus
from topology.model.event import Record


def audited(status: WorkStatus, *, moving: bool = False) -> AuditReport:
    topology = Topology("t")
    source = topology.source("in", inspector=Inspector("id", "n"), keyed=True)
    topology.view("work", of=source, workers=2, handler=lambda event: None, run_in="threads")
    made = Audit(topology, AuditSnapshot({}, {}, {}), {"in": 1})
    made.work_row("work", Record("t-work.arrivals-changelog", 0, 0, WORK, status.encode()))
    if moving:
        made.moving.add("work")
    made.begin()
    return made.report()


@pytest.mark.parametrize("place", ["failed", "dead"])
def test_what_they_count_without_a_record_of_it_is_a_violation(place: str) -> None:
    report = audited(WorkStatus(**{place: 1}))  # type: ignore[arg-type]
    assert f"it and its workers counted 1 as {place}, there are 0" in str(report.violations[0])


def test_what_they_never_rest_to_tell_is_not_proved() -> None:
    report = audited(WorkStatus(failed=1), moving=True)
    assert report.sound
    assert "commit all the time" in report.remarks[0]


def test_what_is_with_them_is_counted_apart() -> None:
    report = audited(WorkStatus())
    (view,) = report.views
    view.counted.processed = view.found.processed = view.silent = 7
    report.add_work("work", (WorkTally(0, 2, True, 0, 3, 1, WorkStatus(), "me", 0),))
    assert (view.counted.processed, view.found.processed, view.silent) == (2, 2, 2)
    assert (view.counted.parked, view.found.parked, view.arrived) == (3, 3, 2)
    assert report.bad_news == ["3 parked"]
    assert report.pending == ["2 arrived and not committed"]
