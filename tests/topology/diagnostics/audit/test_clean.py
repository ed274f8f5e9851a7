"""Runs of any policies under any disorder are clean, and the sums are those of the views."""

from dataclasses import asdict

from hypothesis import given
from hypothesis import strategies as st

from tests.topology.diagnostics.audit.runs import COMMANDED, ORDERLY, Step, busy, run, topologies
from topology import Topology
from topology.diagnostics.audit import AuditReport
from topology.testing.driver.audit import audit_of, committed


def said(report: AuditReport) -> list[str]:
    return [str(violation) for violation in report.violations]


@given(topologies(rebuilds=True), st.one_of(ORDERLY, busy()))
def test_a_run_is_clean_and_every_message_found(topology: Topology, steps: list[Step]) -> None:
    driver = run(topology, steps)
    report = driver.audit()
    assert said(report) == []
    for view in report.views:
        counted, found = asdict(view.counted), asdict(view.found)
        assert view.counted == driver.counts(view.name)
        counted["processed"] += counted.pop("passed")
        for place in ("processed", "duplicate", "waiting", "parked", "late", "failed", "dead"):
            assert found[place] == counted[place], place
        assert found["redelivering"] == counted["redelivering"]
        assert found["skipped"] == counted["skipped"]
    (source,) = report.sources
    arrived = sum(not step.seconds for step in steps)
    assert source.read == arrived == source.events + source.malformed + source.unknown


@given(topologies(rebuilds=True), COMMANDED)
def test_a_run_with_commands_is_clean(topology: Topology, steps: list[Step]) -> None:
    assert said(run(topology, steps).audit()) == []


@given(topologies(rebuilds=True), st.one_of(ORDERLY, busy()), st.data())
def test_a_run_that_restarts_is_clean(
    topology: Topology, steps: list[Step], data: st.DataObject
) -> None:
    at = data.draw(st.integers(0, len(steps)))
    driver = run(topology, steps[:at])
    driver.restart()
    assert said(driver.audit()) == []


@given(topologies(rebuilds=True), st.one_of(ORDERLY, busy()), st.data())
def test_states_that_are_ahead_of_the_offsets_at_least_once_are_no_violation(
    topology: Topology, steps: list[Step], data: st.DataObject
) -> None:
    driver = run(topology, steps)
    kept, tasks = driver._storage, driver._runner.tasks
    offsets = {
        place: (data.draw(st.integers(0, offset)), taken)
        for place, (offset, taken) in committed(kept, tasks, driver._runner.rekeyed).items()
    }
    missed = driver._runner.missed
    assert said(audit_of(kept, offsets, missed, once=False).report()) == []
