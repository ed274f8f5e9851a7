"""A topology on Spark whose read store has records put aside does not end as if all were well."""

import logging
from pathlib import Path

import orjson
import pytest

from sequitur.live import _ended
from stores.sinks import open_sink
from topology import Inspector, Table, Topology

topology = Topology("shop")
orders = topology.source("orders", inspector=Inspector("id", "n"))
topology.view(
    "board", of=orders, handler=lambda event: None, tables=[Table("board", {"id": int}, {})]
)


def record(view: str, number: object) -> tuple[str, int, int, bytes]:
    change = {"op": "upsert", "table": "board", "key": {"id": number}, "values": {}}
    body = {"view": "board", "stream": "a", "sequence": 1, "changes": [change]}
    return f"shop.{view}", 0, 0, orjson.dumps(body)


@pytest.mark.parametrize(
    ("view", "number", "status"), [("board", 7, 0), ("board", "seven", 1), ("other", "seven", 0)]
)
def test_the_status_is_bad_news_over_dead_rows_of_the_topology(
    view: str, number: object, status: int, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    with open_sink(f"sqlite:///{tmp_path}/shop.db", topology.views["board"].tables) as sink:
        sink.apply([record(view, number)])
        assert _ended(sink, topology) == status
    assert ("1 record could not be applied: see the table _dead" in caplog.text) == bool(status)
    assert _ended(None, topology) == 0
