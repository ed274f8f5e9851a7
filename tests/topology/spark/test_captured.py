"""The replay log as a frame of Spark."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from sqlalchemy import Engine, update

from stores.db.engines import open_engine
from stores.replay import CapturedMessage, FieldKind, ReplayError, ReplayLog
from stores.replay.tables import PERIODS
from topology.spark import replay_log

pytestmark = pytest.mark.integration


@pytest.fixture(params=["sqlite", "postgresql"])
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Engine]:
    url = f"sqlite:///{tmp_path}/log.db"
    if request.param == "postgresql":
        url = request.getfixturevalue("database")
    engine = open_engine(url)
    yield engine
    engine.dispose()


def messages(numbers: range) -> list[CapturedMessage]:
    return [
        CapturedMessage(
            *("moves", n % 3, n, b"\0%d" % n, n, b"k", (("h", b"\xff"), ("h", b""))),
            *("ewr", "", f"s{n % 5}", n),
            metadata={"tail": f"N{n}", "delay": n},
        )
        for n in numbers
    ]


def test_a_frame_has_what_a_query_finds_once(engine: Engine, spark: SparkSession) -> None:
    url = engine.url.render_as_string(hide_password=False)
    log = ReplayLog(engine, {"delay": FieldKind.INTEGER})
    log.create()
    log.append("moves", messages(range(4_000)), {})
    other = ReplayLog(engine, {"tail": FieldKind.TEXT, "delay": FieldKind.NUMBER})
    other.append("moves", messages(range(4_000, 5_000)), {})
    found = replay_log(spark, url, slices=3)
    rows = found.select("id", "field_tail", "field_delay").collect()
    assert len({row["id"] for row in rows}) == len(rows) == 5_000
    assert sum(row["field_tail"] is not None for row in rows) == 1_000
    assert sum(row["field_delay"] for row in rows) == sum(range(5_000))
    query = {"streams": ["s2"], "where": [["delay", ">=", 3_990]], "after": 1_000}
    some = replay_log(spark, url, query, slices=7).orderBy("id").collect()
    assert [row["sequence"] for row in some] == [3_992, 3_997, *range(4_002, 5_000, 5)]
    one = some[0]
    assert (one["value"], one["timestamp"], one["site"]) == (b"\0003992", 3_992, "ewr")
    assert [tuple(each) for each in one["headers"]] == [("h", b"\xff"), ("h", b"")]
    with pytest.raises(ReplayError, match="there is no field 'gate'"):
        replay_log(spark, url, {"where": [["gate", "=", "1"]]})
    # Between planning and reading, retention takes the first period.
    with engine.begin() as connection:
        connection.execute(update(PERIODS).values(begun=PERIODS.c.number))
    assert log.retain(3600)
    with pytest.raises(Exception, match="retention took a part"):
        found.count()
