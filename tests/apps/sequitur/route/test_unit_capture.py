"""A router writes the replay log itself: what END promises is in the log, and nothing else."""

from collections.abc import Sequence
from pathlib import Path

import orjson
import pytest
from sqlalchemy import Connection

from sequitur.route.loading import load_units
from sequitur.route.unit_capture import UnitCapture
from stores.replay import Condition, Query, ReplayLog
from stores.segments import OutboundMessage, SegmentConsumer
from topology.model.errors import DeclarationError

ROUTER = """
[router]
name = "shop"
site = "berlin"
[units]
ledger = "sqlite:///FOLDER/ledger.db"
errors = { transport = "disk", destination = "errors", attempts = 1 }
batch = { count = 40, idle = 0.002 }
capture = "replay.toml"
[transport.disk]
kind = "files"
folder = "."
[source.lines]
place = "lines.txt"
rules = ["even", "all"]
[rule.even]
when = { key = "even", equals = true }
to = "some"
[rule.all]
when = { key = "n", exists = true }
to = "all"
[destination.some]
address = "even-ones"
[destination.all]
"""
REPLAY = """
[replay]
database = "sqlite:///FOLDER/ledger.db"
[field.n]
kind = "integer"
path = { all = "n" }
[stream.all]
stream = "even"
sequence = "n"
"""


@pytest.fixture
def router(tmp_path: Path) -> Path:
    for name, text in (("router.toml", ROUTER), ("replay.toml", REPLAY)):
        (tmp_path / name).write_text(text.replace("FOLDER", str(tmp_path)))
    lines = [{"n": n, "even": n % 2 == 0} for n in range(100)] + ["no object"]
    (tmp_path / "lines.txt").write_bytes(b"".join(orjson.dumps(each) + b"\n" for each in lines))
    return tmp_path / "router.toml"


async def test_what_is_promised_is_captured_with_it_or_not_at_all(
    router: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    units = load_units(router)
    log = ReplayLog(units.engine)
    keep, failed = UnitCapture.note, list[int]()

    def fails_once(
        self: UnitCapture, connection: Connection, messages: Sequence[OutboundMessage]
    ) -> None:
        keep(self, connection, messages)
        if log.end() == 0 and len(failed) < 1:
            failed.append(len(messages))
            raise OSError("the database is away")

    monkeypatch.setattr(UnitCapture, "note", fails_once)
    consumer = units.consumers("disk", "test")["lines"]
    assert isinstance(consumer, SegmentConsumer)
    with pytest.raises(OSError, match="is away"):
        await consumer.step(1)
    assert (failed, log.count(Query()), units.ledger.positions("lines")) == ([60], 0, {})
    done = 0
    while done < 101:
        done += await consumer.step(1)
    await consumer.stop()
    assert log.count(Query(topics=("all",))) == 100
    assert log.count(Query(topics=("even-ones",))) == 50
    assert log.count(Query(topics=("errors",))) == 1
    (found,) = log.page(Query(topics=("all",), where=(Condition.parse("n=42"),))).messages
    headers = dict(found.headers)
    assert headers["sequitur-id"].startswith(b"berlin/lines/0/")
    assert (found.stream, found.sequence, orjson.loads(found.value or b"")["n"]) == ("true", 42, 42)
    assert (found.partition, found.offset) == (-1, found.id)
    assert found.position == f"berlin/all/-1/{found.id}"
    ids = [dict(each.headers)["sequitur-id"] for each in log.page(Query(), 1_000).messages]
    assert len(set(ids)) == len(ids) == 151


def test_a_log_in_another_database_is_refused(router: Path) -> None:
    (router.parent / "replay.toml").write_text('[replay]\ndatabase = "sqlite:///elsewhere.db"\n')
    with pytest.raises(DeclarationError, match="is another one than the ledger's"):
        load_units(router)
