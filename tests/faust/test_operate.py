"""Where a command goes: to the partition that has its stream."""

from types import SimpleNamespace
from typing import Any

from topology import Inspector, Topology
from topology.command import Result
from topology.faust.operate import Orders, partitions_of
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


class Audit:
    """An audit topic, read in one go."""

    def __init__(self, *values: bytes | None) -> None:
        self.values = values

    async def getmany(self, timeout_ms: int) -> dict[str, list[Any]]:
        return {"audit": [SimpleNamespace(value=value) for value in self.values]}


async def test_an_answer_is_found_among_what_others_wrote_to_the_audit_topic() -> None:
    orders = Orders(None, ())
    answer = b'{"id": "7", "done": true, "message": "is done", "facts": {}}'
    rubbish = (None, b"", b"{", b"[]", b"7", b'{"id": []}', b"\xff", b'{"name": "blocked"}')
    orders._consumer = Audit(*rubbish, answer)
    await orders._answers({"7": 1}, 60)
    assert orders._found == {"7": [Result(True, "is done", {}, "")]}
