"""Views whose streams begin anywhere, or end: their places are audited in sum."""

from dataclasses import replace
from typing import Any

import pytest

from tests.topology.audit.runs import talking
from tests.topology.partition import INSPECTOR
from topology import (
    Topology,
    TopologyTestDriver,
    contiguous,
    earliest_seen,
    skip,
)
from topology.counts import decode_counts, encode_counts
from topology.rows import COUNTS

KINDS: dict[str, tuple[Any, dict[str, Any]]] = {
    "midway": (contiguous(), {"gap": skip(after=4), "start": earliest_seen(after=1)}),
    "closing": (contiguous(), {"gap": skip(after=4), "closes": "End", "retention": 3}),
}


def ran(kind: str) -> TopologyTestDriver:
    sequence, more = KINDS[kind]
    topology = Topology("shop")
    source = topology.source("orders", inspector=INSPECTOR, sequence=sequence)
    topology.view("board", of=source, handler=talking, **more)
    driver = TopologyTestDriver(topology)
    for n in (2, 1, 3, 3, 5, 6, 8):
        body = {"stream": "a", "sequence": n, "before": n - 1 or None, "part": n % 2}
        fails = {"fails": 1} if n == 5 else {}
        driver.pipe("orders", {**body, "kind": "End" if n == 8 else "On", **fails})
    driver.advance(20)
    driver.pipe("orders", {"stream": "a", "sequence": 7, "before": 6, "part": 1, "kind": "On"})
    driver.pipe("orders", b"{")
    return driver


@pytest.mark.parametrize("kind", KINDS)
def test_they_are_clean_and_a_changed_count_is_found(kind: str) -> None:
    driver = ran(kind)
    report = driver.audit()
    assert [str(violation) for violation in report.violations] == []
    (view,) = report.views
    assert view.unsure
    assert view.found.failed == 1
    assert view.counted.written == view.found.written > 0

    rows = driver._kept.stores["board"].rows
    counts = decode_counts(rows[COUNTS])
    for name in ("received", "failed", "written", "waiting", "duplicate"):
        changed = replace(counts, **{name: getattr(counts, name) + 1})
        rows[COUNTS] = encode_counts(changed)
        assert not driver.audit().clean, name
