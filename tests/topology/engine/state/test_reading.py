"""What a view's rows say of one stream."""

from typing import Any

import pytest

from stores.view_state.memory import MemoryTable
from topology import Event, Inspector, Topology
from topology.engine.state.reading import StreamReader
from topology.engine.state.rows import progress_key


def board(event: Event, state: dict[str, Any]) -> None:
    """It says nothing."""


@pytest.mark.parametrize(
    ("row", "waits"),
    [
        (b'{"last":3,"state":{"since":5}}', False),
        (b'{"last":3,"since":5,"state":{"since":5}}', True),
    ],
)
def test_whether_a_stream_waits_is_not_a_matter_of_its_own_state(row: bytes, waits: bool) -> None:
    topology = Topology("t")
    source = topology.source("in", inspector=Inspector(stream="id", sequence="n"))
    topology.view("v", of=source, handler=board)
    table = MemoryTable()
    table.write([(progress_key("a"), row)])
    stream = StreamReader(topology.views["v"], table, "a").stream
    assert (stream.waits, stream.state) == (waits, {"since": 5})
