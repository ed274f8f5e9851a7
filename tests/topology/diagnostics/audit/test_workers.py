"""What the workers of a view count is held against what there is."""

import orjson
import pytest

from topology import Inspector, Topology
from topology.diagnostics.audit import Audit, AuditReport, AuditSnapshot
from topology.diagnostics.explain.work_tally import WorkTally
from topology.engine.commit_unit import CommitUnit
from topology.engine.intake import IntakeCounts
from topology.engine.output.failure import WITHOUT_MESSAGES
from topology.engine.redelivery.records import AT_WORKERS, bury
from topology.engine.state.rows import COUNTS, WORK, encode_progress
from topology.engine.state.work_status import WorkStatus
from topology.model.counts import Counts, encode_counts
from topology.model.event import Event, Record
from topology.sequencer.progress import Progress


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


def test_a_stream_that_every_partition_was_to_drop_is_looked_for_where_it_came() -> None:
    topology = Topology("t")
    source = topology.source("in", inspector=Inspector("id", "n"), keyed=True, partitions=2)
    topology.view("work", of=source, workers=2, handler=lambda event: None, run_in="threads")
    made = Audit(topology, AuditSnapshot({("in", 0): (1, IntakeCounts(1))}), {"in": 2})
    counts = encode_counts(Counts(received=1, processed=1))
    for number in (0, 1):
        rows = [(b"pa", encode_progress(Progress(0, epoch=1, anew=1), None)), (COUNTS, counts)]
        for name, row in rows[: 2 - number]:
            made.row("work", Record("t-work-changelog", number, 0, name, row))
    made.work_row("work", Record("t-work.arrivals", 0, 0, WORK, WorkStatus(dead=1).encode()))
    made.begin()
    view = topology.views["work"]
    made.feed([Record("in", 0, 0, b"a", b'{"id":"a","n":1}')])
    event = Event("a", 1, None, None, Record("in", 0, 0, None, None))
    unit = CommitUnit("in", 0)
    bury(view, event, f"its stream was dropped{AT_WORKERS}", unit)
    key, value, _, headers = unit.keyed[view.dead_topic][0]
    made.feed([Record(view.dead_topic, 0, 0, key, value, headers)])
    assert made.report().violations == []
