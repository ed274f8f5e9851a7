"""What the workers of a view count is held against what there is."""

import orjson
import pytest

from topology import Inspector, Topology
from topology.diagnostics.audit import Audit, AuditReport, AuditSnapshot
from topology.diagnostics.explain.work_tally import WorkTally
from topology.engine.output.failure import WITHOUT_MESSAGES
from topology.engine.state.rows import WORK
from topology.engine.state.work_status import WorkStatus
from topology.model.event import Record


def audited(
    status: WorkStatus, *, moving: bool = False, exact: bool = True, error: str = ""
) -> AuditReport:
    topology = Topology("t")
    source = topology.source("in", inspector=Inspector("id", "n"), keyed=True)
    topology.view("work", of=source, workers=2, handler=lambda event: None, run_in="threads")
    made = Audit(topology, AuditSnapshot({}, {}, {}, exact=exact), {"in": 1})
    made.work_row("work", Record("t-work.arrivals-changelog", 0, 0, WORK, status.encode()))
    if moving:
        made.moving.add("work")
    made.begin()
    if error:
        body = orjson.dumps({"view": "work", "stream": "a", "sequence": 0, "done": error})
        made.feed([Record(topology.errors_topic, 0, 0, b"a", body, [("view", b"work")])])
    return made.report()


@pytest.mark.parametrize("place", ["failed", "dead"])
def test_what_they_count_without_a_record_of_it_is_a_violation(place: str) -> None:
    report = audited(WorkStatus(**{place: 1}))  # type: ignore[arg-type]
    assert f"it and its workers counted 1 as {place}, there are 0" in str(report.violations[0])


def test_what_they_have_written_is_compared_where_all_of_it_was_counted_and_at_rest() -> None:
    report = audited(WorkStatus(written=2))
    assert "it and its workers wrote 2 outputs, there are 0" in str(report.violations[0])
    assert audited(WorkStatus(written=None)).clean
    assert audited(WorkStatus(written=2), exact=False).clean


def test_what_is_handled_but_for_its_messages_is_bad_news_and_has_not_failed() -> None:
    report = audited(WorkStatus(), error=WITHOUT_MESSAGES)
    assert report.sound
    assert report.bad_news == ["1 handled but for their messages"]


def test_what_they_never_rest_to_tell_is_not_proved() -> None:
    report = audited(WorkStatus(failed=1), moving=True)
    assert report.sound
    assert "commit all the time" in report.remarks[0]


def test_what_is_with_them_is_counted_apart() -> None:
    report = audited(WorkStatus())
    (view,) = report.views
    view.counted.processed = view.found.processed = view.silent = 7
    status = WorkStatus(malformed=1)
    report.add_work("work", (WorkTally(0, 2, True, 0, 3, 1, status, "me", 0),))
    assert (view.counted.processed, view.found.processed, view.silent) == (1, 1, 1)
    assert (view.counted.parked, view.found.parked, view.arrived) == (3, 3, 2)
    told = "workers of view work: 1 message is in the malformed topic, from partition 0"
    assert report.bad_news == ["3 parked", told]
    assert report.pending == ["2 arrived and not committed"]
