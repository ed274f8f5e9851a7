"""Rebuilds on a real broker, worker, materializer and Spark.

Each of them with one kind of read store; with all of them if SEQUITUR_REBUILD_STORES=all.
"""

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sequitur.cli.statuses import STOPPED
from soak.ended import ended
from stores.locks.claim import Claim
from tests.apps.sequitur.rebuild.living import PATIENCE, Input, Living, Load
from tests.apps.sequitur.rebuild.stores import DeltaStore, PostgresStore, SqliteStore, Store
from tests.conftest import BrokerAddress
from tests.topology.faust.only_in_log import capture, delete

pytestmark = pytest.mark.integration


def on(kind: str) -> pytest.MarkDecorator:
    """Which stores a test runs with."""
    all_of_them = os.environ.get("SEQUITUR_REBUILD_STORES") == "all"
    kinds = ["sqlite", "postgresql", "delta"] if all_of_them else [kind]
    return pytest.mark.parametrize("living", kinds, indirect=True)


@pytest.fixture
def living(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    broker: BrokerAddress,
    unique: Callable[[str], str],
) -> Iterator[Living]:
    store: Store = SqliteStore(tmp_path)
    if request.param == "postgresql":
        store = PostgresStore(request.getfixturevalue("database"))
    if request.param == "delta":
        store = DeltaStore(tmp_path, request.getfixturevalue("spark"))
    made = Living(broker.address, unique("rebuilt"), tmp_path, store)
    yield made
    made.stop()


@on("postgresql")
def test_live_processing_goes_on_while_a_view_is_rebuilt_and_nothing_is_missed(
    living: Living,
) -> None:
    events = Input(1)
    living.start(LABEL="old")
    living.send(*events.make(6000, lost=0.002))
    living.materialize()
    living.wait_for(events.ledger())
    assert living.labels() == {"old"}
    assert living.select("SELECT 1 FROM pages WHERE page = -1")
    before, sent = living.ledger(), living.tens()
    assert set(sent.values()) == {1}

    living.restart("new")
    load = Load(living, events)
    load.start()
    said = living.rebuild("--hashes", "--emit")
    assert load.end() > 1
    living.wait_for(events.ledger())
    assert living.labels() == {"new"}
    assert living.pages() == events.pages()
    again = living.tens()
    assert {again[message] for message in sent} == {2}
    assert "switched: the tables that were live are kept as shadow tables old" in said
    # The handler says something else now, of every stream.
    assert "of 30 streams that had outputs, 30 differ" in said
    old = living.ledger("ledger__old")
    assert old.keys() == before.keys()
    assert all(old[stream][0] >= before[stream][0] for stream in before)

    # Old tables are in the way of another rebuild until somebody drops them.
    process = living.begin(log="refused")
    assert ended(process, PATIENCE, living.log("refused")) == 2
    assert "sequitur rebuild drop" in living.log("refused").read_text()
    living.command_line("drop", "--read-store", living.url)
    assert living.store.shadows() == set()
    assert living.select("SELECT 1 FROM ledger__old") == []
    assert living.ledger() == events.ledger()


@on("sqlite")
def test_a_rebuild_that_is_killed_goes_on_and_two_at_once_are_refused(living: Living) -> None:
    events = Input(2)
    living.start(LABEL="new")
    living.send(*events.make(4000, lost=0.002))
    living.materialize()
    living.wait_for(events.ledger())

    with Claim(living.url, [f"view {living.prefix}.ledger"]):
        second = living.begin(log="second")
        assert ended(second, PATIENCE, living.log("second")) == 2
    assert "is being rebuilt by process" in living.log("second").read_text()

    first = living.begin("--switch", "no", log="first")
    living.until("first", "rebuilding ledger: ", first)
    if isinstance(living.store, PostgresStore):
        first.send_signal(signal.SIGTERM)
        assert ended(first, PATIENCE, living.log("first")) == STOPPED
    else:
        first.send_signal(signal.SIGKILL)
        first.wait()
        living.store.forget_claims()
    said = living.rebuild("--switch", "same", log="third")
    assert living.store.shadows() == {"old"}
    assert "going on with what was begun" in said
    assert "table ledger: 30 rows live, 30 rebuilt, all the same" in said
    assert "switched" in said
    living.send(*events.make(500))
    living.wait_for(events.ledger())
    assert living.pages() == events.pages()


@on("postgresql")
def test_one_stream_is_replaced_in_the_live_tables(living: Living, tmp_path: Path) -> None:
    """Its history is in three places: in files, in a replay log, and in the source's topic."""
    events = Input(3, streams=5)
    living.start(LABEL="old")
    living.send(*events.make(500, lost=0.002))
    living.materialize()
    export = ("export", "--broker", living.broker, "--topic", f"{living.prefix}.in")
    living.command_line(*export, "--to", str(tmp_path / "past"), "--format", "json")
    exported = {(each.partition(), each.offset()) for each in living.records("in")}
    living.send(*events.make(500, lost=0.002))
    living.wait("in.by-stream", events.sent)
    living.wait_for(events.ledger())
    everything = living.records("in")
    rest = [each for each in everything if (each.partition(), each.offset()) not in exported]
    capture(tmp_path / "replay.toml", rest)
    delete(living.broker, everything)
    living.restart("new")

    load = Load(living, events, size=10)
    load.start()
    said = living.rebuild(
        "--stream",
        "s1",
        "--stream",
        "s2",
        "--history",
        f"json:{tmp_path}/past",
        "--history",
        f"log:{tmp_path}/replay.toml",
        "--history",
        "sources",
    )
    assert "2 streams replaced" in said
    load.end()
    living.wait_for(events.ledger())
    rows = dict(living.select("SELECT stream, label FROM ledger"))
    assert rows["s1"] == rows["s2"] == "new"
    pages = living.pages()
    gone = {stream for stream in events.ledger() if (stream, -1) not in pages}
    assert gone == {"s1", "s2"}
    assert {at: n for at, n in pages.items() if at[1] >= 0} == events.pages()
