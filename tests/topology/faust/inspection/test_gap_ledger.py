"""What lies in the dead topic is not missing, unless nothing brings it back."""

from types import SimpleNamespace
from typing import Any

import pytest

from topology.engine.redelivery.records import AT_WORKERS, GONE
from topology.faust.inspection.gap_ledger import _dead
from topology.model.event import Record
from topology.model.origin_headers import REASON


@pytest.mark.parametrize(
    ("reason", "held"),
    [
        ("the ring of 4 slots had no room for it", True),
        ("ann dropped its stream", False),
        (GONE, False),
        (f"its stream was dropped{AT_WORKERS}", False),
    ],
)
async def test_what_can_be_put_back_is_not_missing(reason: str, *, held: bool) -> None:
    headers = [("view", b"board"), ("sequence", b"2"), (REASON, reason.encode())]

    async def end_of(_: str, note: Any) -> Any:
        note(Record("shop.dead", 0, 0, b"a", None, headers))
        return SimpleNamespace(cut=None)

    durable: Any = SimpleNamespace(topology=SimpleNamespace(dead_topic="shop.dead"), end_of=end_of)
    assert await _dead(durable, []) == ({"board": {"a": {2}}} if held else {})
