"""Where a command goes: to the partition that has its stream."""

from topology import Inspector, Topology
from topology.faust.operate import partitions_of
from topology.lanes import joined_lane


def test_a_lane_is_where_its_stream_is() -> None:
    topology = Topology("shop")
    source = topology.source("orders", inspector=Inspector("id", "n"), partitions=16)
    topology.view("plain", of=source, handler=lambda event: None)
    topology.view("lanes", of=source, handler=lambda event: None, lane="currency")
    plain, lanes = (topology.views[name] for name in ("plain", "lanes"))
    for stream in ("a", "north|17", "%"):
        (where,) = partitions_of(plain, stream)
        assert {tuple(partitions_of(lanes, joined_lane(stream, c))) for c in ("EUR", "", "|")} == {
            (where,)
        }
    assert partitions_of(lanes, None) == list(range(16))
