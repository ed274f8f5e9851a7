"""Where a command goes: to the partition that has its stream."""

from topology import Inspector, Topology
from topology.faust.operate import _partitions
from topology.lanes import joined_lane


def test_a_lane_is_where_its_stream_is() -> None:
    topology = Topology("shop")
    source = topology.source("orders", inspector=Inspector("id", "n"), partitions=16)
    topology.view("plain", of=source, handler=lambda event: None)
    topology.view("lanes", of=source, handler=lambda event: None, lane="currency")
    plain, lanes = (topology.views[name] for name in ("plain", "lanes"))
    for stream in ("a", "north|17", "%"):
        (where,) = _partitions(plain, stream)
        assert {tuple(_partitions(lanes, joined_lane(stream, c))) for c in ("EUR", "", "|")} == {
            (where,)
        }
    assert _partitions(lanes, None) == list(range(16))
