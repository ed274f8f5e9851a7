"""An audit says `clean` over nothing that is lost, and counts what it cannot read."""

from dataclasses import replace
from typing import Any, cast

import orjson
import pytest

from tests.topology.declaration.test_route import rules
from tests.topology.diagnostics.audit.runs import talking
from tests.topology.partition import INSPECTOR
from topology import Record, Topology, TopologyTestDriver, park, redeliver, skip
from topology.diagnostics.audit import AuditReport, AuditSnapshot, Place, differences, saved
from topology.diagnostics.audit.sums import source_report
from topology.diagnostics.explain import route_totals
from topology.diagnostics.side_topics import side_record
from topology.engine.intake import IntakeCounts
from topology.engine.redelivery.dead_events import DeadEventFilter, find_dead
from topology.faust.operation import dead_events, malformed_messages
from topology.testing.driver.audit import audit_of, committed


def driver(**policies: Any) -> TopologyTestDriver:
    topology = Topology("shop")
    source = topology.source("orders", inspector=INSPECTOR)
    for name in ("board", "other"):
        topology.view(name, of=source, handler=talking, **policies)
    return TopologyTestDriver(topology)


def send(to: TopologyTestDriver, *numbers: int, **more: Any) -> None:
    for n in numbers:
        to.pipe("orders", {"stream": "a", "sequence": n, "kind": "A", **more})


def last_lines(of: TopologyTestDriver) -> tuple[bool, str, str]:
    report = of.audit()
    *_, verdict, unproved = str(report).splitlines()
    assert report.sound
    return report.clean, verdict, unproved


def test_clean_is_said_only_where_all_is_processed() -> None:
    run = driver()
    send(run, 1, 2, 2)
    clean, verdict, unproved = last_lines(run)
    assert clean
    assert verdict == "clean: in order and complete, every message is in one place"
    assert unproved.startswith("not proved: what handlers made of the events (--contents)")
    assert "what the read stores hold" in unproved


def test_what_still_waits_is_said() -> None:
    run = driver()
    send(run, 1, 3)
    clean, verdict, _ = last_lines(run)
    assert (clean, verdict) == (True, "in order so far: 2 waiting")


@pytest.mark.parametrize("what", ["dead", "failed", "late", "skipped", "parked", "malformed"])
def test_clean_is_never_said_over_what_is_lost(what: str) -> None:
    run = driver(gap=skip(after=5), **({"error": park()} if what == "parked" else {}))
    send(run, 1)
    if what == "dead":
        send(run, 3)
        run.command("skip", "board", "a", 3, force=True)
    elif what in ("failed", "parked"):
        send(run, 2, fails=1)
    elif what == "malformed":
        run.pipe("orders", b"no JSON")
    else:
        send(run, 3)
        run.advance(10)
        send(run, *([2] if what == "late" else []))
    clean, verdict, _ = last_lines(run)
    assert not clean
    assert verdict.startswith("in order, but not complete: ")
    assert f" {what}" in verdict


def test_a_halted_view_is_not_clean() -> None:
    run = driver()
    send(run, 1)
    run.command("halt", "board")
    clean, verdict, _ = last_lines(run)
    assert not clean
    assert "view board halted" in verdict


RUBBISH: dict[str, tuple[bytes | None, bytes | None, tuple[tuple[str, bytes], ...]]] = {
    "no JSON": (b"a", b"\x1b[2J\xff", (("view", b"board"), ("sequence", b"7"))),
    "no value": (b"a", None, (("view", b"board"), ("sequence", b"7"))),
    "no headers": (b"a", b'{"view":"board","stream":"a","sequence":7,"changes":[]}', ()),
    "no number": (b"a", b'{"view":"board","stream":"a","sequence":7,"changes":[]}',
                  (("view", b"board"), ("sequence", b"x"))),
    "no changes": (b"a", b'{"view":"board","stream":"a","sequence":7}', (("sequence", b"7"),)),
    "a list": (b"a", b"[1]", (("sequence", b"7"),)),
}  # fmt: skip
TOPICS = ["shop.board", "shop.late", "shop.errors", "shop.dead", "shop.parked", "shop.audit"]
HERE = [
    (what, topic)
    for what in RUBBISH
    for topic in TOPICS
    if topic == "shop.board" or what in ("no headers", "no JSON")
]
"""Of side topics nothing is decoded but headers, and bodies that have to be JSON."""


@pytest.mark.parametrize(("what", "topic"), HERE)
def test_records_that_cannot_be_decoded_are_counted_with_a_sample(what: str, topic: str) -> None:
    run = driver()
    send(run, 1, 2)
    key, value, headers = RUBBISH[what]
    if what == "no JSON" and topic in ("shop.late", "shop.dead"):
        headers = (("view", b"board"), ("sequence", b"x"))
    records = run._storage.topics[topic]
    done = committed(run._storage, run._runner.tasks, run._runner.rekeyed)
    for _ in range(2):
        records.append(Record(topic, 0, len(records), key, value, headers))
    report = audit_of(run._storage, done, {}).report()
    assert not report.sound
    assert report.unreadable == {topic: 2}
    assert report.as_dict()["unreadable"] == {topic: 2}
    (found,) = [each for each in report.violations if "cannot be decoded" in each.what]
    assert found.place == Place(topic, 0, len(records) - 2)
    assert f"2 records of {topic} cannot be decoded; the first says " in found.what
    assert str(found).isprintable()


class Sends:
    """Takes what a command sends."""

    def __init__(self) -> None:
        self.sent: list[Any] = []

    async def __aenter__(self) -> "Sends":
        return self

    async def __aexit__(self, *_: object) -> None:
        pass

    async def send(self, messages: list[Any]) -> None:
        self.sent += messages


async def test_a_record_of_what_was_put_back_or_replayed_is_no_violation(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run, sends = driver(buffer=2, full=redeliver(limit=1)), Sends()
    send(run, 3, 4)
    run.pipe("orders", b"no JSON")
    run.advance(60)
    topics, view = run._storage.topics, run.topology.views["board"]
    found = find_dead(view, topics["shop.dead"], DeadEventFilter(), set())
    monkeypatch.setattr(dead_events, "RecordedSends", lambda *_: sends)
    await dead_events._send(None, view, dead_events.Redriven("board", found, {}, False), 0, "")
    again = [side_record("malformed", each) for each in topics["shop.malformed"]]
    made = malformed_messages.SentAgain("malformed", again, [], 0, 0, False, 0, "id")
    await malformed_messages._send(cast(Any, sends), "shop.audit", made, 0, "")
    told = [each for each in sends.sent if each.topic == "shop.audit"]
    assert len(told) == 2
    for each in told:
        topics["shop.audit"].append(replace(each, offset=len(topics["shop.audit"])))
    report = run.audit()
    assert (report.violations, report.remarks) == ([], [])


def test_what_a_stage_fails_on_is_of_something_that_is_declared() -> None:
    run = driver()
    run.topology.parallel("copy", topic="plain", workers=2, handler=talking)
    done = committed(run._storage, run._runner.tasks, run._runner.rekeyed)
    body = orjson.dumps({"stream": "k", "sequence": 0, "error": "x", "done": "advance"})
    errors = run._storage.topics["shop.errors"]
    for name in (b"copy", b"taken out"):
        errors.append(Record("shop.errors", 0, len(errors), b"k", body, [("view", name)]))
        remarks = audit_of(run._storage, done, {}).report().remarks
        assert len(remarks) == (name != b"copy")


def test_an_output_whose_parts_say_different_things_is_found() -> None:
    for field, other in (("stream", "b"), ("sequence", 3), ("view", "other")):
        run = driver()
        send(run, 1, 2)
        records = run._storage.topics["shop.board"]
        body = orjson.loads(records[1].value or b"")
        records[1].value = orjson.dumps(body | {field: other})
        found = [each for each in run.audit().violations if "do not say the same" in each.what]
        assert [each.place for each in found] == [Place("shop.board", 0, 1)]


def routing(*, alone: bool = False, **more: Any) -> TopologyTestDriver:
    topology = Topology("shop") if alone else driver().topology
    topology.route("flights", rules=rules("in"), **more)
    return TopologyTestDriver(topology)


@pytest.mark.parametrize("alone", [False, True])
def test_clean_is_never_said_over_what_a_route_has_lost(*, alone: bool) -> None:
    run = routing(alone=alone)
    run.pipe("in", {"delay": 70})
    clean, verdict, unproved = last_lines(run)
    assert (clean, verdict) == (
        True, "clean: in order and complete, every message is in one place",
    )  # fmt: skip
    assert "where routes sent what they read" in unproved
    for _ in range(50):
        run.pipe("in", b"no JSON")
    clean, verdict, _ = last_lines(run)
    assert (clean, verdict) == (False, "in order, but not complete: 50 malformed")
    assert "route flights: 51 messages, of them 50 malformed" in str(run.audit())
    assert run.audit().as_dict()["routes"][0]["source"] == "flights"


def test_what_a_route_has_parked_is_bad_news() -> None:
    run = routing(reload=lambda load, before: rules("in"), parks=True)
    for _ in range(2):
        run.pipe("in", b"no JSON", key="A")
    clean, verdict, _ = last_lines(run)
    assert (clean, verdict) == (False, "in order, but not complete: 2 parked in route flights")


def test_what_a_route_has_not_read_is_still_to_come() -> None:
    report = AuditReport("shop", [], [], [], 0, [])
    report.routes = [route_totals("flights", [IntakeCounts(1)], 5000)]
    assert report.verdict == ["in order so far: 5,000 not read yet"]


def test_one_view_can_be_audited_by_itself() -> None:
    run = driver()
    send(run, 1, 2)
    done = committed(run._storage, run._runner.tasks, run._runner.rekeyed)
    del run._storage.topics["shop.other"][0]
    alone = audit_of(run._storage, done, {}, views=["board"]).report()
    assert alone.clean
    assert [view.name for view in alone.views] == ["board"]
    assert "the views that were not asked for" in str(alone).splitlines()[-1]
    assert not audit_of(run._storage, done, {}, views=["other"]).report().sound


def test_what_an_open_transaction_hides_is_still_to_come() -> None:
    run, place = driver(), ("orders", 0)
    (source,) = run.topology.sources.values()
    snapshot = AuditSnapshot({place: (5, IntakeCounts(5))}, {}, {place: 5}, held={place: 4})
    found = source_report(source, snapshot, {"orders": 1, source.by_stream: 1})
    report = AuditReport("shop", [found], [], [], 0, [])
    assert report.verdict == ["in order so far: 4 not read yet"]


def test_runs_are_compared_by_the_views_that_were_asked_for() -> None:
    run = driver()
    send(run, 1)
    kept = orjson.loads(orjson.dumps(saved(run.audit())))
    done = committed(run._storage, run._runner.tasks, run._runner.rekeyed)
    alone = audit_of(run._storage, done, {}, views=["board"]).report()
    assert differences(alone, kept) == []
    del kept["views"]["other"]
    assert [each.view for each in differences(run.audit(), kept)] == ["other"]


@pytest.mark.parametrize(
    "other", [[], {}, {"views": []}, {"views": {"board": []}}, {"views": {"board": {"a": 5}}}]
)
def test_what_is_no_saved_audit_is_said_to_be_none(other: Any) -> None:
    with pytest.raises(ValueError, match="no saved audit"):
        differences(driver().audit(), other)
