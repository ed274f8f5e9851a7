"""Linked and monotonic sources, lanes and rebuilt streams are audited event by event."""

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.topology.diagnostics.audit.runs import reticent, talking
from tests.topology.diagnostics.audit.test_clean import said
from tests.topology.partition import INSPECTOR
from topology import (
    Topology,
    TopologyTestDriver,
    contiguous,
    linked,
    monotonic,
    park,
    rebuild_stream,
    skip,
    spill,
)
from topology.testing.driver.audit import audit_of, committed

SKIPS, REBUILDS = {"gap": skip(after=4)}, {"late": rebuild_stream()}
KINDS: dict[str, tuple[Any, dict[str, Any]]] = {
    "linked": (linked(previous="before"), SKIPS),
    "linked, waiting": (linked(previous="before"), {}),
    "linked, rebuilt": (linked(previous="before"), SKIPS | REBUILDS),
    "monotonic": (monotonic(settle=2), {}),
    "monotonic, rebuilt": (monotonic(settle=2), REBUILDS),
    "lanes": (contiguous(), SKIPS | {"lane": "part"}),
    "lanes, rebuilt": (contiguous(), SKIPS | REBUILDS | {"lane": "part"}),
    "rebuilt": (contiguous(), SKIPS | REBUILDS),
    "parked": (linked(previous="before"), {"error": park()}),
}
Arrivals = list[tuple[str, int, int, bool, str]]
ARRIVALS = st.lists(
    st.tuples(
        st.sampled_from("ab"),
        st.integers(1, 12),
        st.sampled_from([0, 0, 0, 1, 9]),
        st.sampled_from([False] * 9 + [True]),
        st.sampled_from("AAAB"),
    ),
    max_size=50,
)
"""(stream, number, seconds that pass then, whether its handler fails, kind)."""


def ran(kind: str, arrivals: Arrivals, handler: Any = talking, **more: Any) -> TopologyTestDriver:
    sequence, policies = KINDS[kind]
    topology = Topology("shop")
    source = topology.source("orders", inspector=INSPECTOR, sequence=sequence)
    topology.view("board", of=source, handler=handler, full=spill(), **policies, **more)
    driver = TopologyTestDriver(topology)
    for stream, n, seconds, fails, name in arrivals:
        body = {"stream": stream, "sequence": n, "kind": name, "part": n % 2}
        # A link to the one before, but for a few that name an earlier one.
        body["before"] = None if n == 1 else n - 1 - (n % 3 if n > 9 else 0)
        body |= {"fails": 1} if fails else {}
        driver.pipe("orders", body)
        driver.advance(seconds)
    return driver


@pytest.mark.parametrize("kind", KINDS)
@given(arrivals=ARRIVALS, quiet=st.booleans(), choosy=st.booleans())
def test_any_run_is_clean(kind: str, arrivals: Arrivals, quiet: bool, choosy: bool) -> None:
    handler = reticent if quiet else talking
    driver = ran(kind, arrivals, handler, accepts={"A"} if choosy else None)
    report = driver.audit()
    assert said(report) == []
    (view,) = report.views
    assert not view.unsure
    assert view.found.received == view.counted.received == len(arrivals)
    for place in ("waiting", "parked", "late", "failed", "written"):
        assert getattr(view.found, place) == getattr(view.counted, place), place
    driver.restart()
    assert said(driver.audit()) == []


def test_a_duplicate_that_fails_in_a_rebuild_is_no_violation() -> None:
    driver = ran(
        "linked, rebuilt",
        [("b", 10, 5, False, "A"), ("b", 9, 0, True, "A"), ("b", 1, 0, False, "A")],
    )
    assert driver.counts("board").failed == 1
    assert said(driver.audit()) == []


def spoiled(driver: TopologyTestDriver, topic: str, at: int) -> list[str]:
    """What is said when a record of a topic is gone."""
    done = committed(driver._storage, driver._runner.tasks, driver._runner.rekeyed)
    del driver._storage.topics[topic][at]
    return said(audit_of(driver._storage, done, {}).report())


IN_ORDER: Arrivals = [(stream, n, 1, False, "A") for n in range(1, 10) for stream in "ab"]


@pytest.mark.parametrize("kind", KINDS)
def test_an_output_that_is_gone_is_named(kind: str) -> None:
    driver = ran(kind, IN_ORDER)
    driver.advance(10)
    gone = orjson.loads(driver._storage.topics["shop.board"][7].value or b"")
    found = spoiled(driver, "shop.board", 7)
    place = f"view board, stream {gone['stream']} sequence {gone['sequence']}"
    assert any(each.startswith(place) for each in found), found


@pytest.mark.parametrize("kind", ["linked", "linked, waiting", "parked"])
def test_a_link_to_what_never_came_is_found(kind: str) -> None:
    driver = ran(kind, IN_ORDER)
    records = driver._storage.topics["shop.orders.by-stream"]
    (at,) = [
        number
        for number, record in enumerate(records)
        if orjson.loads(record.value or b"") | {"stream": "a", "sequence": 4}
        == orjson.loads(record.value or b"")
    ]
    assert any(
        "its predecessor never came and no skip is recorded" in each
        for each in spoiled(driver, "shop.orders.by-stream", at)
    )


@pytest.mark.parametrize("kind", ["linked", "monotonic", "lanes"])
def test_a_late_record_that_is_gone_is_missed(kind: str) -> None:
    arrivals: Arrivals = [("a", n, 0, False, "A") for n in (1, 2, 7, 8, 9)]
    arrivals += [("a", 9, 9, False, "A"), ("a", 5, 0, False, "A"), ("a", 6, 0, False, "A")]
    driver = ran(kind, arrivals)
    assert driver.audit().sound
    assert driver.counts("board").late
    found = spoiled(driver, "shop.late", 0)
    assert any("as late" in each for each in found), found


@pytest.mark.parametrize("kind", ["monotonic", "lanes"])
def test_outputs_that_change_places_are_found(kind: str) -> None:
    driver = ran(kind, IN_ORDER)
    driver.advance(10)
    records = driver._storage.topics["shop.board"]
    own = [at for at, record in enumerate(records) if orjson.loads(record.value or b"")["stream"]
           == orjson.loads(records[0].value or b"")["stream"]]  # fmt: skip
    records[own[0]], records[own[1]] = records[own[1]], records[own[0]]
    assert any("it comes too late" in each for each in said(driver.audit()))


def test_a_rebuilt_stream_has_the_hash_of_one_that_was_not() -> None:
    late: Arrivals = [("a", n, s, False, "A") for n, s in ((1, 0), (3, 0), (4, 9), (2, 0), (5, 0))]
    rebuilt = ran("rebuilt", late).audit().views[0].hashes["a"]
    other = ran("rebuilt", sorted(late)).audit().views[0].hashes["a"]
    assert (rebuilt.epoch, other.epoch) == (1, 0)
    assert rebuilt[:3] == other[:3]


def test_an_output_of_an_epoch_that_is_over_is_found() -> None:
    late: Arrivals = [("a", n, s, False, "A") for n, s in ((1, 0), (3, 0), (4, 9), (2, 0))]
    driver = ran("rebuilt", late)
    driver._storage.topics["shop.board"].append(driver._storage.topics["shop.board"][0])
    assert any("has sequence 4 of epoch 1" in each for each in said(driver.audit()))
