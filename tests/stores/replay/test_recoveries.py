"""Recoveries in SQL: what is asked for, what is waited for, and how they end."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Engine, update

from stores.db.engines import open_engine
from stores.replay import Comparison, Condition, Query, ReplayError, ReplayLog
from stores.replay.errors import Busy
from stores.replay.recoveries import RECOVERIES, Recoveries, RecoveryRequest
from stores.replay.replay_state import ReplayAction, ReplayState
from stores.replay.replay_tables import REPLAYS
from stores.replay.replays import Replays
from tests.stores.replay.sample import FIELDS, messages
from tests.stores.replay.test_replaying import Broker, run

ENDS = {"moves": {0: 300, 1: 221, 2: 231}}
WHO = ("ann", "the disk is gone")


class RecoveriesContract:
    """engine: a fixture, of an empty database."""

    @pytest.fixture
    def recoveries(self, engine: Engine) -> Recoveries:
        recoveries = Recoveries(Replays(ReplayLog(engine, FIELDS)))
        recoveries.create()
        recoveries.create()
        return recoveries

    async def test_a_recovery_from_its_request_to_its_end(self, recoveries: Recoveries) -> None:
        log, replays = recoveries.replays.log, recoveries.replays
        log.append("moves", messages(25, metadata={}), {0: 241, 1: 221, 2: 231})
        query = Query(sequences=(5, None), offsets={"moves": {0: (90, None), 1: (0, 100)}})
        asked = RecoveryRequest(("moves",), query, *WHO, positions={"moves": {0: 250, 1: 50, 2: 9}})
        made = recoveries.request(asked, ENDS)
        assert made.query.offsets == {"moves": {0: (90, 250), 1: (0, 50)}}
        assert made.query.topics == ("moves",)
        assert recoveries.waits_for(made) == [("moves", 0, 241, 250)]
        assert recoveries.open() == [(made, False)]
        assert recoveries.newest() == [made] == [recoveries.get(made.id)]
        recoveries.begin(made)
        recoveries.begin(made)
        broker = Broker()
        broker.partitions[f"moves.recovery.{made.id}"] = 3
        broker.refused = {b'{"n": 12}'}
        await run(replays, made.id, broker)
        assert replays.get(made.id).state is ReplayState.PAUSED
        replays.act(made.id, ReplayAction.RESUME, *WHO, on_refused="skip")
        await run(replays, made.id, broker)
        assert (replays.get(made.id).state, len(broker.got)) == (ReplayState.DONE, 5 + 3)
        assert replays.refused(made.id)[0] == 1
        assert [each.action for each in replays.history(made.id)] == [
            *("preview", "start", "stop", "resume", "finish")
        ]
        closed = recoveries.close(made.id, *WHO)
        assert (closed.closed, recoveries.open()) == ("ann: the disk is gone", [(closed, False)])
        recoveries.deleted(made.id)
        assert recoveries.open() == []

    def test_what_is_closed_before_it_begins_never_runs(self, recoveries: Recoveries) -> None:
        recoveries.replays.log.append("moves", messages(3, metadata={}), {0: 1})
        made = recoveries.request(RecoveryRequest(("moves",), Query(), *WHO), ENDS)
        recoveries.close(made.id, *WHO)
        recoveries.deleted(made.id)  # before another server made its topics
        recoveries.begin(made)
        assert [each.id for each, _ in recoveries.open()] == [made.id]
        assert recoveries.replays.get(made.id).state is ReplayState.CANCELLED
        assert recoveries.replays.running() == {}

    def test_what_is_done_counts_until_it_is_closed(
        self, recoveries: Recoveries, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("stores.replay.recoveries.MOST_OPEN", 1)
        recoveries.replays.log.append("moves", messages(3, metadata={}), {0: 1})
        asked = RecoveryRequest(("moves",), Query(), *WHO)
        made = recoveries.request(asked, ENDS)
        recoveries.begin(made)
        recoveries.replays.act(made.id, ReplayAction.FINISH, *WHO)
        assert recoveries.replays.get(made.id).state is ReplayState.DONE
        with pytest.raises(Busy, match="the topics of 1 recoveries are there still: close some"):
            recoveries.request(asked, ENDS)
        recoveries.close(made.id, *WHO)
        assert recoveries.request(asked, ENDS).closed is None

    def test_nobody_closes_one_without_a_name_and_a_reason(self, recoveries: Recoveries) -> None:
        recoveries.replays.log.append("moves", messages(3, metadata={}), {0: 1})
        made = recoveries.request(RecoveryRequest(("moves",), Query(), *WHO), ENDS)
        recoveries.begin(made)
        for who in (("ann", " "), ("ann", "\0"), ("", "why")):
            with pytest.raises(ReplayError, match="write a text"):
                recoveries.close(made.id, *who)
            assert recoveries.get(made.id).closed is None
        assert recoveries.replays.running() == {made.id: True}

    def test_what_went_before_anything_was_captured_is_gone(self, recoveries: Recoveries) -> None:
        recoveries.replays.log.append("moves", (), {0: 2}, lost={0: (0, 2)})
        made = recoveries.request(RecoveryRequest(("moves",), Query(), *WHO), ENDS)
        said = ["moves/0: 2 messages, offsets 0 to 1"]
        assert recoveries.gone(made) == said
        recoveries.begin(made)
        assert [*recoveries.replays.get(made.id).holes] == said

    def test_what_could_not_be_read_again_is_not_kept(self, recoveries: Recoveries) -> None:
        many = tuple(f"t{n}" for n in range(1_001))
        recoveries.replays.log.append("moves", messages(3), {0: 1})
        strange = Query(where=(Condition("delay", Comparison.IS, 2**70),))
        for topics, query in ((many, Query()), (("moves",), strange)):
            ends = {each: {0: 0} for each in topics}
            with pytest.raises(
                ReplayError, match=r"topics: .* at most 1000|cannot be kept: Integer"
            ):
                recoveries.request(RecoveryRequest(topics, query, *WHO), ends)
        assert recoveries.newest() == [] == recoveries.open()

    def test_a_row_that_cannot_be_read_hides_no_other(
        self, recoveries: Recoveries, caplog: pytest.LogCaptureFixture
    ) -> None:
        recoveries.replays.log.append("moves", messages(3), {0: 1})
        asked = RecoveryRequest(("moves",), Query(), *WHO)
        for id in ("damaged", "good"):
            recoveries.begin(recoveries.request(asked, ENDS, id))
        query = '{"where": [["delay", "=", null]]}'
        with recoveries.engine.begin() as connection:
            for table in (RECOVERIES, REPLAYS):
                connection.execute(update(table).where(table.c.id == "damaged").values(query=query))
        for _ in range(2):
            assert [each.id for each, _ in recoveries.open()] == ["good"]
            assert [each.id for each in recoveries.newest()] == ["good"]
            assert [each.id for each in recoveries.replays.newest()] == ["good"]
        assert caplog.text.count("damaged is passed over: it cannot be read: where: ") == 2


class TestSqlite(RecoveriesContract):
    @pytest.fixture
    def engine(self, tmp_path: Path) -> Iterator[Engine]:
        engine = open_engine(f"sqlite:///{tmp_path / 'log.db'}")
        yield engine
        engine.dispose()


@pytest.mark.integration
class TestPostgres(RecoveriesContract):
    @pytest.fixture
    def engine(self, database: str) -> Iterator[Engine]:
        engine = open_engine(database)
        yield engine
        engine.dispose()
