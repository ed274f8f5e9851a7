"""Views whose streams begin anywhere, or end, are audited event by event as well."""

from dataclasses import replace
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.examples import some
from tests.topology.diagnostics.audit.runs import reticent, talking
from tests.topology.diagnostics.audit.test_clean import said
from tests.topology.partition import INSPECTOR
from topology import (
    Topology,
    TopologyTestDriver,
    contiguous,
    earliest_seen,
    linked,
    monotonic,
    opened_by,
    rebuild_stream,
    redeliver,
    skip,
    spill,
)
from topology.engine.state.rows import COUNTS
from topology.model.counts import decode_counts, encode_counts
from topology.testing.driver.audit import audit_of, committed

MIDWAY = {"gap": skip(after=4), "start": earliest_seen(after=1)}
OPENED = {"gap": skip(after=4), "start": opened_by("On")}
CLOSING = {"gap": skip(after=4), "closes": "End", "retention": 3}
KINDS: dict[str, tuple[Any, dict[str, Any]]] = {
    "midway": (contiguous(), MIDWAY),
    "midway, in twos": (contiguous(2, 2), MIDWAY),
    "midway, waiting": (contiguous(), {"start": earliest_seen(after=1)}),
    "midway, rebuilt": (contiguous(), MIDWAY | {"late": rebuild_stream()}),
    "midway, lanes": (contiguous(), MIDWAY | {"lane": "part"}),
    "midway, small": (contiguous(), MIDWAY | {"buffer": 2, "full": redeliver(delay=1)}),
    "midway, linked": (linked(previous="before"), MIDWAY),
    "opened": (contiguous(), OPENED),
    "opened, waiting": (contiguous(), {"start": opened_by("On")}),
    "opened, linked": (linked(previous="before"), OPENED),
    "closing": (contiguous(), CLOSING),
    "closing, kept": (contiguous(), CLOSING | {"retention": 10_000}),
    "closing, reopening": (contiguous(), CLOSING | {"reopen": "start"}),
    "closing, reopening, kept": (
        contiguous(),
        CLOSING | {"reopen": "start", "retention": 10_000},
    ),
    "closing, linked": (linked(previous="before"), CLOSING),
    "closing, monotonic": (monotonic(settle=2), {"closes": "End", "retention": 3}),
    "opened, closing": (contiguous(), CLOSING | {"start": opened_by("On"), "reopen": "start"}),
    "midway, closing": (contiguous(), CLOSING | MIDWAY | {"reopen": "start"}),
}
Arrivals = list[tuple[str, int, int, bool, str]]
ARRIVALS = st.lists(
    st.tuples(
        st.sampled_from("ab"),
        st.integers(1, 8),
        st.sampled_from([0, 0, 0, 1, 9]),
        st.sampled_from([False] * 9 + [True]),
        st.sampled_from(["On", "Is", "Is", "Is", "End"]),
    ),
    max_size=25,
)
"""(stream, number, seconds that pass then, whether its handler fails, kind)."""
COMMANDS = st.lists(
    st.tuples(
        st.integers(0, 25),
        st.sampled_from(["skip", "drop", "halt", "resume"]),
        st.sampled_from("ab"),
        st.integers(1, 12),
    ),
    max_size=3,
)
few = settings(max_examples=some(40))
"""Of each kind."""
Commands = list[tuple[int, str, str, int]]


def ran(
    kind: str,
    arrivals: Arrivals,
    handler: Any = talking,
    commands: Commands = (),  # type: ignore[assignment]
) -> TopologyTestDriver:
    sequence, policies = KINDS[kind]
    topology = Topology("shop")
    source = topology.source("orders", inspector=INSPECTOR, sequence=sequence)
    topology.view("board", of=source, handler=handler, **{"full": spill(), **policies})
    driver = TopologyTestDriver(topology)
    for at, (stream, n, seconds, fails, name) in enumerate(arrivals):
        number = 2 * n if kind.endswith("twos") else n
        body = {"stream": stream, "sequence": number, "kind": name, "part": n % 2}
        body["before"] = None if n == 1 else n - 1
        driver.pipe("orders", body | ({"fails": 1} if fails else {}))
        driver.advance(seconds)
        for when, command, of, sequence in commands:
            if when == at:
                streams = command in ("skip", "drop")
                driver.command(
                    command, "board", of if streams else None,
                    sequence if command == "skip" else None, force=True,
                )  # fmt: skip
    return driver


@few
@pytest.mark.parametrize("kind", KINDS)
@given(arrivals=ARRIVALS, quiet=st.booleans())
def test_any_run_is_sound(kind: str, arrivals: Arrivals, quiet: bool) -> None:
    driver = ran(kind, arrivals, reticent if quiet else talking)
    report = driver.audit()
    assert said(report) == []
    (view,) = report.views
    assert view.found.received == view.counted.received == len(arrivals)
    if not view.unsure:
        assert view.found.skipped == view.counted.skipped
    assert view.unsure <= bool(view.counted.dropped)


@given(kind=st.sampled_from([*KINDS]), arrivals=ARRIVALS, commands=COMMANDS)
def test_any_run_with_commands_is_sound(kind: str, arrivals: Arrivals, commands: Commands) -> None:
    assert said(ran(kind, arrivals, talking, commands).audit()) == []


IN_ORDER: Arrivals = [("a", n, 0, False, "On" if n == 4 else "Is") for n in range(4, 10)]
IN_ORDER += [("b", 5, 0, False, "On"), ("b", 4, 9, False, "Is"), ("b", 6, 9, False, "Is")]


def spoiled(driver: TopologyTestDriver, topic: str, at: int) -> list[str]:
    """What is said when a record of a topic is gone."""
    done = committed(driver._storage, driver._runner.tasks, driver._runner.rekeyed)
    del driver._storage.topics[topic][at]
    return said(audit_of(driver._storage, done, {}).report())


@pytest.mark.parametrize("kind", ["midway", "midway, linked", "opened", "midway, closing"])
def test_an_output_that_is_gone_is_named(kind: str) -> None:
    driver = ran(kind, IN_ORDER)
    driver.advance(10)
    gone = orjson.loads(driver._storage.topics["shop.board"][3].value or b"")
    place = f"view board, stream {gone['stream']} sequence {gone['sequence']}"
    found = spoiled(driver, "shop.board", 3)
    assert any(each.startswith(place) for each in found), found


@pytest.mark.parametrize("kind", ["midway", "opened", "closing, kept", "closing, reopening, kept"])
def test_an_event_that_came_and_is_nowhere_is_named(kind: str) -> None:
    ends = kind.startswith("closing")
    arrivals: Arrivals = [("a", n, 0, False, "End" if ends and n == 3 else "On") for n in (1, 2, 3)]
    arrivals += [("b", 1, 0, False, "On"), ("b", 3, 0, False, "On")]
    driver = ran(kind, arrivals)
    driver.advance(1)
    assert driver.audit().sound
    store = driver._storage.stores["board"]
    (waits,) = [key for key in store.rows if key[:1] == b"b"]
    store.write([(waits, None)])
    (found, *_) = driver.audit().violations
    assert (found.stream, found.sequence) == ("b", 3)
    assert "it came and is nowhere" in found.what


@pytest.mark.parametrize("kind", ["midway", "opened"])
def test_what_was_before_the_beginning_is_not_counted_as_skipped(kind: str) -> None:
    arrivals: Arrivals = [("a", n, 2, False, "On") for n in (65_000, 65_001)]
    arrivals += [("a", 65_003, 9, False, "Is"), ("a", 7, 0, False, "Is")]
    (view,) = ran(kind, arrivals).audit().views
    assert (view.found.skipped, view.found.late, view.counted.skipped) == (1, 1, 1)
    assert not view.unsure


@pytest.mark.parametrize("kind", KINDS)
def test_a_changed_count_is_found(kind: str) -> None:
    driver = ran(kind, IN_ORDER)
    driver.advance(20)
    assert said(driver.audit()) == []
    rows = driver._storage.stores["board"].rows
    counts = decode_counts(rows[COUNTS])
    for name in ("received", "failed", "written", "waiting", "duplicate"):
        rows[COUNTS] = encode_counts(replace(counts, **{name: getattr(counts, name) + 1}))
        assert not driver.audit().sound, name
