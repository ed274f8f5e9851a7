"""An audit says `clean` over nothing that is lost, and counts what it cannot read."""

from typing import Any

import orjson
import pytest

from tests.topology.diagnostics.audit.runs import talking
from tests.topology.partition import INSPECTOR
from topology import Record, Topology, TopologyTestDriver, park, skip
from topology.diagnostics.audit import AuditReport, AuditSnapshot, Place
from topology.diagnostics.audit.sums import source_report
from topology.engine.intake import IntakeCounts
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


def test_an_output_whose_parts_say_different_things_is_found() -> None:
    for field, other in (("stream", "b"), ("sequence", 3), ("view", "other")):
        run = driver()
        send(run, 1, 2)
        records = run._storage.topics["shop.board"]
        body = orjson.loads(records[1].value or b"")
        records[1].value = orjson.dumps(body | {field: other})
        found = [each for each in run.audit().violations if "do not say the same" in each.what]
        assert [each.place for each in found] == [Place("shop.board", 0, 1)]


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
