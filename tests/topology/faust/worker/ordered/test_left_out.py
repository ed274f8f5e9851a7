"""Messages that Kafka refuses, while their events' SQL is committed, are left out."""

from types import SimpleNamespace
from typing import Any

from topology import Event, Inspector, Record, Topology
from topology.declaration.ordered_stage import Release
from topology.engine.commit_unit import CommitUnit, Out
from topology.engine.staged_effects import Staged
from topology.faust.worker.ordered.settling import Settling


def test_of_a_stream_that_is_released_too() -> None:
    """The release was sent again as it was, and refused again, for ever."""
    topology = Topology("shop")
    source = topology.source("in", inspector=Inspector("id", "n"), keyed=True)
    topology.view("work", of=source, handler=lambda event: None)
    view = topology.views["work"]
    runner: Any = SimpleNamespace(core=None, stage=SimpleNamespace(view=view))
    last = Event("a", 3, None, None, Record("in", 0, 9, b"a", b"a"))
    unit = CommitUnit("in", 0, now=1)
    for sequence in (1, 2, 3):
        out: Out = (b"a", b"%d" % sequence, 1, [])
        unit.keyed["out"].append(out)
        unit.sent.append(("out", out, "work", "a", sequence))
    unit.keyed["out"].append((b"a", b"not a message of a handler", 1, []))
    view.emitting.refused["a", 2] = "Kafka refuses it"
    view.emitting.refused["b", 1] = "another stream's"
    Settling(runner).drop_refused(Release("a", False, False, False), Staged(last, unit))
    assert [value for _, value, _, _ in unit.keyed["out"]] == [
        b"1", b"3", b"not a message of a handler"
    ]  # fmt: skip
    assert [each[4] for each in unit.sent] == [1, 3]
    assert len(unit.keyed["shop.errors"]) == 1
    assert [*view.emitting.refused] == [("b", 1)]
    # Should this unit be refused as well, it is left out of the next one, too.
    view.emitting.uncommitted()
    assert {*view.emitting.refused} == {("a", 2), ("b", 1)}
