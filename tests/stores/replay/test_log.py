"""What every replay log holds to: SQLite and PostgreSQL."""

import asyncio
import itertools
import math
import resource
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import Connection, Engine, event, func, select, update
from sqlalchemy.exc import OperationalError, SQLAlchemyError
from sqlalchemy.schema import CreateIndex

from stores.db.engines import open_engine
from stores.locks.lease import Lease
from stores.replay import (
    CapturedMessage,
    Comparison,
    Condition,
    FieldKind,
    Query,
    ReplayError,
    ReplayLog,
)
from stores.replay.retention_timer import RetentionTimer
from stores.replay.tables import PERIODS, TALLIES, TOTALS, periods
from tests.examples import some
from tests.forked import context
from tests.stores.replay.killed import MOST, append_more, killed_at, retain
from tests.stores.replay.sample import FIELDS, TIME, messages

_SOON = TIME / 1000 + 1
"""The time of the second message."""


def _counting(engine: Engine) -> list[tuple[str, Any]]:
    """The statements that count, and their parameters, from now on."""
    statements = list[tuple[str, Any]]()

    @event.listens_for(engine, "before_cursor_execute")
    def note(_: Any, __: Any, statement: str, parameters: Any, *___: Any) -> None:
        if "count(*)" in statement:
            statements.append((" ".join(statement.split()) + " ", parameters))

    return statements


class ReplayLogContract:
    """engine: a fixture, of an empty database."""

    @pytest.fixture
    def log(self, engine: Engine) -> ReplayLog:
        log = ReplayLog(engine, FIELDS)
        log.create()
        log.create()
        return log

    def test_what_is_kept_comes_back_as_it_was(self, log: ReplayLog) -> None:
        strange = CapturedMessage("moves", 0, 1, None, origin="jfk/moves/0/7", site="jfk")
        assert log.append("moves", [*messages(3), strange], {0: 31, 1: 11}) == 4
        found = log.page(Query()).messages
        assert [replace(each, id=0, captured=0, size=0) for each in found] == [
            *messages(3),
            strange,
        ]
        assert [each.id for each in found] == [1, 2, 3, 4]
        assert found[0].size == len(found[0].value or b"")
        assert found[0].captured > TIME
        assert [each.position for each in found[2:]] == ["ewr/moves/2/20", "jfk/moves/0/7"]
        assert (log.positions("moves"), log.topics(), log.end()) == ({0: 31, 1: 11}, ["moves"], 4)
        listed = log.page(Query(), content=False).messages
        assert [each.size for each in listed] == [each.size for each in found]
        assert listed[0].value is None
        assert log.message(4) == found[3]
        assert log.message(5) is None

    def test_pages_are_in_order_and_end(self, log: ReplayLog) -> None:
        log.append("moves", messages(25), {})
        query, seen = Query(topics=("moves",), sequences=(3, None)), list[int]()
        while query.after is not None:
            page = log.page(query, 10)
            seen += [each.sequence or 0 for each in page.messages]
            if page.after is None:
                break
            query = replace(query, after=page.after)
        assert seen == list(range(3, 25))

    def test_a_page_of_large_messages_is_short(self, log: ReplayLog) -> None:
        log.append("moves", messages(4, value=b"x" * 3_000_000), {})
        page = log.page(Query())
        assert (len(page.messages), page.after) == (3, 3)

    def test_whoever_is_replaced_keeps_nothing(self, log: ReplayLog) -> None:
        def check(_: Connection) -> None:
            raise RuntimeError("another one captures")

        with pytest.raises(RuntimeError):
            log.append("moves", messages(3), {0: 1}, check)
        assert (log.count(Query()), log.positions("moves"), log.end()) == (0, {}, 0)

    def test_what_the_database_refuses_is_its_error_and_nothing_is_kept(
        self, log: ReplayLog, engine: Engine
    ) -> None:
        log.append("moves", messages(3), {0: 1})
        with engine.begin() as connection:
            connection.exec_driver_sql("DROP TABLE sequitur_replay_1")
        with pytest.raises(SQLAlchemyError):
            log.append("moves", messages(3), {0: 2})
        assert (log.end(), log.positions("moves")) == (3, {0: 1})

    def test_no_bytes_are_refused(self, log: ReplayLog) -> None:
        odd = CapturedMessage(
            *("moves", 0, 0, b"\0\xff"),
            time=2**70,
            headers=(("\\xff", b"\0"), ("", b"")),
            site="e\0wr",
            stream="\ud800" * 5000,
            sequence=2**64,
            metadata={"tail": "a\0b" * 1000, "delay": 1e400, "share": "much", "else": 1},
        )
        log.append("moves", [odd, replace(odd, metadata={"delay": "12", "tail": 7})], {})
        one, two = log.page(Query()).messages
        assert (one.value, one.sequence, one.time) == (b"\0\xff", None, 0)
        assert one.headers == odd.headers
        assert one.metadata == {"tail": ("a\ufffdb" * 1000)[:500]}
        assert two.metadata == {"delay": 12, "tail": "7"}
        assert log.count(Query(where=(Condition.parse("delay>=12"),))) == 1

    def test_a_value_of_another_kind_is_left_out_not_rounded(
        self, log: ReplayLog, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("stores.replay.writing.PERIOD", 8)
        given: tuple[Any, ...] = (60.7, -0.9, True, "1_000", "60.7", Decimal("60.7"), 60.0, 60)
        odd = [
            CapturedMessage("moves", 0, n, b"", metadata={"delay": each, "share": each})
            for n, each in enumerate(given)
        ]
        for whole in (2, 4):  # in a period that is written to, and behind one that has tallies
            log.append("moves", odd, {})
            for where, count in (
                ("delay=60", whole), ("delay>60", 0), ("delay<0", 0), ("delay=1", 0),
                ("delay=1000", 0), ("share=1", 0), ("share=1000", 0), ("share>60", 3 * whole // 2),
            ):  # fmt: skip
                query = Query(where=(Condition.parse(where),))
                assert (log.count(query), len(log.page(query).messages)) == (count, count), where
        kept = [each.metadata for each in log.page(Query()).messages[:8]]
        assert [each.get("delay") for each in kept] == [*[None] * 6, 60, 60]
        assert [n for n, each in enumerate(kept) if "share" not in each] == [2, 3]

    def test_new_fields_hold_for_what_comes_and_old_ones_are_still_found(
        self, log: ReplayLog, engine: Engine
    ) -> None:
        log.append("moves", messages(4), {})
        other = ReplayLog(engine, {"gate": FieldKind.TEXT, "tail": FieldKind.INTEGER})
        other.append("moves", messages(2, metadata={"gate": "A1", "tail": 3}), {})
        assert other.count(Query(where=(Condition("gate", Comparison.IS, "A1"),))) == 2
        assert other.count(Query(where=(Condition("gate", Comparison.NOT, "A1"),))) == 4
        assert other.count(Query(where=(Condition("delay", Comparison.AT_LEAST, 2),))) == 2
        assert other.count(Query(where=(Condition("tail", Comparison.IS, 3),))) == 2
        assert [each.id for each in other.page(Query(after=3)).messages] == [4, 5, 6]

    def test_retention_takes_whole_periods_and_says_what_is_gone(
        self, log: ReplayLog, engine: Engine
    ) -> None:
        log.append("moves", messages(6), {})
        with engine.begin() as connection:
            connection.execute(update(PERIODS).values(day=0, begun=0))
        log.append("moves", messages(2), {})
        assert log.retain(3600) == []
        with engine.begin() as connection:
            connection.execute(update(PERIODS).where(PERIODS.c.number == 2).values(begun=1))
        would_go = log.retain(3600, dry_run=True)
        assert (log.count(Query()), log.holes(Query())) == (8, [])
        gone = log.retain(3600)
        assert gone == would_go
        assert [(each.partition, each.first, each.last, each.messages) for each in gone] == [
            (0, 0, 30, 2),
            (1, 10, 40, 2),
            (2, 20, 50, 2),
        ]
        assert str(gone[0]) == "moves/0: 2 messages, offsets 0 to 30"
        assert log.holes(Query(topics=("moves",))) == gone
        assert log.holes(Query(after=6)) == log.holes(Query(topics=("else",))) == []
        assert log.holes(Query(offsets={"moves": {1: (41, None), 2: (0, 21)}})) == gone[2:]
        assert [each.id for each in log.page(Query()).messages] == [7, 8]
        with engine.connect() as connection:
            for table in (TOTALS, *TALLIES.values()):
                assert connection.execute(select(func.count()).select_from(table)).scalar() == 0
        log.append("moves", messages(1), {})
        assert log.end() == 9

    def test_what_retention_took_is_one_hole_of_a_partition_until_its_topic_is_made_again(
        self, log: ReplayLog, engine: Engine, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("stores.replay.writing.PERIOD", 1)
        lost = {1: (11, 20)}
        for first in (0, 20, 40, 60, 0, 20, 40):
            of = [CapturedMessage("moves", n, first + at, None) for n in (0, 1) for at in (0, 10)]
            log.append("moves", of, {}, lost=lost)
            lost = {}
        with engine.begin() as connection:
            connection.execute(update(PERIODS).values(begun=PERIODS.c.number))
        assert [each.messages for each in log.retain(3600)] == [2] * 12

        def holes(query: Query) -> list[tuple[int, int, int, int]]:
            found = log.holes(replace(query, partitions=(1,)))
            return [(each.first, each.last, each.messages, each.last_id) for each in found]

        whole, again, before = (0, 70, 8, 16), (0, 30, 4, 24), (11, 19, 9, 4)
        assert sorted(holes(Query())) == sorted([whole, again, before])
        assert sorted(holes(Query(topics=("moves",), after=15))) == sorted([whole, again])
        assert holes(Query(after=16)) == [again]
        assert log.messages_gone(Query(topics=("moves",), partitions=(1, 2))) == 8 + 4 + 9
        assert (log.messages_gone(Query(topics=("else",))), log.messages_gone(Query())) == (0, 33)
        log.append("moves", messages(1), {})
        assert [each.id for each in log.page(Query()).messages] == [25, 26, 27, 28, 29]

    @pytest.mark.parametrize("sign", ["=", "!=", "<", "<=", ">", ">="])
    def test_whole_numbers_are_compared_as_numbers(self, log: ReplayLog, sign: str) -> None:
        log.append("moves", messages(5), {})
        log.append("moves", messages(1, metadata={}), {})
        for value in (2, 2.5, 2.0, -1, 1e30, -1e30, 2**63, -(2**63) - 1):
            condition = Condition("delay", Comparison(sign), value)
            found = [each.sequence for each in log.page(Query(where=(condition,))).messages[:5]]
            expected = [n for n in range(5) if _HOLDS[Comparison(sign)](n, value)]
            assert found[: len(expected)] == expected, value
            lacking = sign == "!="  # and the one that lacks the field
            assert log.count(Query(where=(condition,))) == len(expected) + lacking, value
        large = Condition.parse(f"share{sign}{10**30}")
        fitting = 5 if _HOLDS[Comparison(sign)](1, 10**30) else 0
        assert log.count(Query(where=(large,))) == fitting + lacking

    def test_a_field_that_was_text_is_not_compared_as_a_number(
        self, log: ReplayLog, engine: Engine
    ) -> None:
        log.append("moves", messages(3, metadata={"tail": "60"}), {})
        other = ReplayLog(engine, {"tail": FieldKind.INTEGER})
        other.append("moves", messages(2, metadata={"tail": 60}), {})
        assert other.count(Query(where=(Condition.parse("tail=60"),))) == 5
        with pytest.raises(ReplayError, match="'tail' is text in messages from 1 on, and >= does"):
            other.count(Query(where=(Condition.parse("tail>=60"),)))
        assert other.count(Query(where=(Condition.parse("tail>=60"),), after=3)) == 2

    def test_a_topic_may_have_more_partitions_than_sqlite_nests_conditions(
        self, log: ReplayLog
    ) -> None:
        log.append("moves", messages(9), {})
        parts = dict.fromkeys(range(1, 1_200), (10, 80))
        assert log.count(Query(offsets={"moves": parts})) == 5
        many = [["delay", ">=", n] for n in range(100)]
        assert log.count(Query.from_json({"where": many})) == 0

    def test_several_who_write_share_a_period(self, log: ReplayLog, engine: Engine) -> None:
        other = ReplayLog(engine, {"gate": FieldKind.TEXT})
        for _ in range(5):
            log.append("moves", messages(2), {})
            other.append("moves", messages(2, metadata={"gate": "A1"}), {})
        with engine.connect() as connection:
            assert len(periods(connection)) == 2
        assert log.count(Query(where=(Condition("gate", Comparison.IS, "A1"),))) == 10
        assert [each.id for each in log.page(Query()).messages] == list(range(1, 21))
        wrong = ReplayLog(engine, {"gate": FieldKind.NUMBER})

        def alternate() -> None:
            for _ in range(60):
                wrong.append("moves", messages(1, metadata={"gate": 1}), {})
                other.append("moves", messages(1, metadata={"gate": "A1"}), {})

        with pytest.raises(ReplayError, match=r"gate is (text|number) and (text|number)"):
            alternate()

    def test_a_clock_that_was_ahead_does_not_end_retention(
        self, log: ReplayLog, engine: Engine
    ) -> None:
        log.append("moves", messages(3), {})
        with engine.begin() as connection:
            ahead = {"day": 90_000, "begun": 90_000 * 86_400_000}
            connection.execute(update(PERIODS).values(**ahead))
        log.append("moves", messages(3), {})
        with engine.begin() as connection:
            connection.execute(update(PERIODS).where(PERIODS.c.number == 2).values(begun=1))
        log.append("moves", messages(1), {})
        assert [each.messages for each in log.retain(3600)] == [1, 1, 1]
        assert log.end() == 7

    def test_a_clock_that_was_behind_drops_nothing_early(
        self, log: ReplayLog, engine: Engine
    ) -> None:
        hour, now = 3_600_000, time.time_ns() // 1_000_000

        def begin(number: int, begun: int) -> None:
            which = update(PERIODS).where(PERIODS.c.number == number)
            with engine.begin() as connection:
                connection.execute(which.values(day=number, begun=begun))

        for number, quarters in enumerate((12, 8, 4, 1), 1):
            log.append("moves", messages(number), {})
            begin(number, now - quarters * hour // 4)
        # A clock that is set back now is behind all that was captured.
        assert log.retain(1, at_most=now - 30 * 24 * hour) == []
        # That of the second period was set back by decades, and right again at the third one.
        begin(2, 1)
        assert log.retain(2 * 3600) == []
        assert sum(each.messages for each in log.retain(1800)) == 3
        assert log.count(Query()) == 7

    def test_a_record_s_time_is_kept_whatever_it_is_and_ends_nothing(
        self, log: ReplayLog, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("stores.replay.writing.PERIOD", 5)
        times = [0, -1, -5_000, 253_402_300_799_000, 2**63 - 1]  # the fourth is in the year 9999
        odd = [replace(each, time=at) for each, at in zip(messages(5), times, strict=True)]
        for _ in range(2):  # in a period that has tallies, and in one that is written to
            log.append("moves", odd, {})
        assert log.retain(60) == []
        assert [each.time for each in log.page(Query()).messages] == times * 2
        for since, until, count in (
            (None, 0.0, 2), (0.0, 1.0, 1), (1.0, None, 2), (253_402_300_799.0, None, 2),
            (253_402_300_800.0, None, 1), (None, -4.0, 1), (None, None, 5),
        ):  # fmt: skip
            assert log.count(Query(since=since, until=until)) == 2 * count, (since, until)

    @pytest.mark.parametrize("work", [append_more, retain])
    def test_who_is_killed_while_a_period_ends_loses_and_doubles_nothing(
        self, log: ReplayLog, engine: Engine, work: Callable[[ReplayLog], object]
    ) -> None:
        log.append("moves", messages(MOST), {0: MOST})
        if work is retain:
            append_more(log)
            with engine.begin() as connection:
                connection.execute(update(PERIODS).values(begun=PERIODS.c.number))
        before = log.count(Query()), log.positions("moves"), log.end()
        for statement in itertools.count(1):
            process = context.Process(
                target=killed_at,
                args=(str(engine.url.render_as_string(hide_password=False)), work, statement),
            )
            process.start()
            process.join(300)  # the first one waits for what all of them import
            if process.exitcode == 0:
                break
            assert process.exitcode == -signal.SIGKILL
            assert (log.count(Query()), log.positions("moves"), log.end()) == before
            assert log.holes(Query()) == []
        assert statement > 8
        expected = [*messages(MOST), *messages(3)][MOST if work is retain else 0 :]
        found = [replace(each, id=0, captured=0, size=0) for each in log.page(Query()).messages]
        assert found == expected
        assert (log.positions("moves"), log.end()) == ({0: MOST + 3}, MOST + 3)
        assert sum(each.messages for each in log.holes(Query())) == MOST + 3 - len(expected)
        for n in (0, 2, MOST - 1):
            query = Query(where=(Condition("delay", Comparison.AT_LEAST, n),))
            assert log.count(query) == sum((each.sequence or 0) >= n for each in expected)
        with engine.connect() as connection:
            tallied = connection.execute(select(func.sum(TOTALS.c.messages))).scalar_one()
        assert (tallied or 0) == (0 if work is retain else MOST)

    @pytest.mark.parametrize(
        ("query", "field", "count"),
        [
            ({"where": [["delay", ">=", 0], ["delay", "!=", 7]]}, 1, 299),
            ({"where": [["delay", ">=", 0]], "topics": ["moves"], "after": 2}, 1, 298),
            ({"where": [["tail", "^=", "N"]], "topics": ["moves"], "since": _SOON}, 0, 299),
        ],
    )
    def test_a_count_by_a_field_topics_and_times_reads_no_message(
        self,
        log: ReplayLog,
        engine: Engine,
        monkeypatch: pytest.MonkeyPatch,
        query: dict[str, Any],
        field: int,
        count: int,
    ) -> None:
        monkeypatch.setattr("stores.replay.writing.PERIOD", 300)
        log.append("moves", messages(300), {})
        log.append("moves", messages(1, metadata={}, time=0), {})
        statements = _counting(engine)
        assert log.count(Query.from_json(query)) == count
        (counting,) = (each for each in statements if "FROM sequitur_replay_1 " in each[0])
        with engine.connect() as connection:
            if engine.dialect.name == "postgresql":
                own = connection.execution_options(isolation_level="AUTOCOMMIT")
                own.exec_driver_sql("VACUUM ANALYZE sequitur_replay_1")
                own.exec_driver_sql("SET enable_seqscan = off")
                own.exec_driver_sql("SET enable_bitmapscan = off")
                plan = own.exec_driver_sql(f"EXPLAIN {counting[0]}", counting[1])
                wanted = f"Index Only Scan using sequitur_replay_1_field_{field}"
            else:
                plan = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {counting[0]}", counting[1])
                wanted = f"USING COVERING INDEX sequitur_replay_1_field_{field}"
            assert wanted in str(plan.all())

    def test_what_nobody_writes_to_is_counted_by_its_tallies(
        self, log: ReplayLog, engine: Engine, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("stores.replay.writing.PERIOD", 200)
        monkeypatch.setattr("stores.replay.tallies._CHUNKS", 20)
        for topic in ("moves", "gates", "moves"):
            log.append(topic, messages(200, topic=topic), {})
        statements = _counting(engine)

        def counted(*where: list[Any], **given: Any) -> tuple[int, list[str]]:
            """The count, and what is asked of the messages of the two periods that are whole."""
            statements.clear()
            found = log.count(Query.from_json({"where": where, **given}))
            return found, [
                each for each, _ in statements if "_replay_1 " in each or "_replay_2 " in each
            ]

        assert counted() == (600, [])
        assert counted(["delay", ">=", 0]) == (600, [])
        assert counted(["delay", ">=", 0], topics=["gates"], since=1.0) == (200, [])
        assert counted(["delay", "!=", 500])[0] == 600
        for query in ([["delay", ">=", 57]], [["delay", ">", 56], ["delay", "<", 1000]]):
            found, asked = counted(*query)
            # A chunk has the values 55 to 65: in each period what is below the next one is counted.
            assert (found, len(asked)) == (3 * 143, 4)

    def test_large_contents_end_a_period(
        self, log: ReplayLog, engine: Engine, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("stores.replay.writing.SIZE", 5_000)
        with engine.begin() as connection:  # as a version made it that had no such column
            connection.exec_driver_sql("ALTER TABLE sequitur_replay_periods DROP COLUMN size")
        log.create()
        for _ in range(3):
            log.append("moves", messages(3, value=b"x" * 1_000), {})
        with engine.connect() as connection:
            found = [(each.messages, each.size) for each in periods(connection)]
        assert found == [(6, 6_000), (3, 3_000)]
        assert log.count(Query(where=(Condition("delay", Comparison.AT_LEAST, 1),))) == 6

    def test_an_index_that_is_there_is_no_obstacle_when_a_period_ends(
        self, log: ReplayLog, engine: Engine, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        log.append("moves", messages(5), {})
        with engine.begin() as connection:
            (period,) = periods(connection)
            for index in period.table.indexes:
                connection.execute(CreateIndex(index))
        monkeypatch.setattr("stores.replay.writing.PERIOD", 5)
        log.append("moves", messages(5), {})
        assert log.count(Query(where=(Condition.parse("delay>=3"),))) == 4
        with engine.connect() as connection:
            assert [each.messages for each in periods(connection)] == [5, 5]

    def test_the_database_ends_a_query_that_takes_too_long(
        self, log: ReplayLog, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        log.append("moves", messages(3_000, value=b"x" * 10_000), {})
        times = iter([0.0, 0.0])  # it begins in time
        monkeypatch.setattr("stores.replay.query_limit.time.monotonic", lambda: next(times, 60.0))
        words = "the query took more than 0.001 s, and was ended: name topics"
        with pytest.raises(ReplayError, match=words):
            log.limited(0.001).count(Query(text="y"))
        times = iter([0.0, 0.0])
        with pytest.raises(ReplayError, match=words):
            log.limited(0.001).page(Query(text="y"))
        # Each part of a page comes in time, but not all of them together.
        times = iter([0.0] * 6)
        with pytest.raises(ReplayError, match="took more than 50 s, and was ended"):
            log.limited(50.0).page(Query(), 700)
        # The connection is as it was before.
        assert log.count(Query(text="y")) == 0
        assert log.limited(120.0).count(Query(text="x", through=10)) == 10

    def test_a_server_at_a_time_drops_what_is_older_than_the_log_keeps(
        self, log: ReplayLog, engine: Engine
    ) -> None:
        hour, day = 3_600_000, 86_400_000
        for number in range(1, 4):
            log.append("moves", messages(number), {})
            begun = {"day": number, "begun": number * day}
            which = update(PERIODS).where(PERIODS.c.number == number)
            with engine.begin() as connection:
                connection.execute(which.values(**begun))
        times = iter([3 * day + hour, 4 * day - 1, 4 * day + hour])
        passed = iter([0.0, 86_400.0, 90_000.0])
        timer = RetentionTimer(
            *(log, 2 * 86_400, "one"), clock=lambda: next(times), passed=lambda: next(passed)
        )
        assert timer.look() == []  # the first day ends when the second begins, and is kept for two
        assert timer.look() == []
        lease = Lease(engine, timer._lease.name, "another server")
        epoch = lease.acquire()
        assert epoch is not None
        assert timer.look() == []  # nothing is asked of the clock
        lease.release(epoch)
        assert [(each.last, each.messages) for each in timer.look()] == [(0, 1)]
        assert (log.count(Query()), next(times, None)) == (5, None)

    def test_a_clock_that_leaps_ahead_drops_nothing(
        self, log: ReplayLog, engine: Engine, caplog: pytest.LogCaptureFixture
    ) -> None:
        for number in range(1, 4):
            log.append("moves", messages(number), {})
            begun = {"day": number, "begun": number * 86_400_000}
            with engine.begin() as connection:
                connection.execute(update(PERIODS).where(PERIODS.c.number == number).values(begun))
        now, passed = [3 * 86_400_000], [0.0]
        timer = RetentionTimer(
            log, 2 * 86_400, "one", clock=lambda: now[0], passed=lambda: passed[0]
        )
        assert timer.look() == []
        now[0], passed[0] = 2**50, 3600.0
        assert timer.look() == []
        assert "the clock leapt ahead by" in caplog.text
        passed[0] = 86_400.0 + 3600  # it goes on by what has passed
        assert [each.messages for each in timer.look()] == [1]

    async def test_retention_runs_by_itself_and_survives_what_it_cannot_do(
        self, log: ReplayLog, engine: Engine, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        log.append("moves", messages(2), {})
        with engine.begin() as connection:
            connection.execute(update(PERIODS).values(day=1, begun=86_400_000))
        log.append("moves", messages(1), {})
        stopped, asked = asyncio.Event(), list[int]()

        def clock() -> int:
            asked.append(1)
            if len(asked) == 1:
                raise ReplayError("period 1 of the log is being read")
            return 2**50

        timer = RetentionTimer(log, 0.001, "one", every=0.01, clock=clock)
        running = asyncio.create_task(timer.run(stopped))
        while not log.holes(Query()):
            await asyncio.sleep(0.01)
            assert not running.done()
        stopped.set()
        await running
        assert (log.count(Query()), len(asked) > 1) == (1, True)

    def test_a_field_that_nobody_declared_is_named(self, log: ReplayLog) -> None:
        with pytest.raises(ReplayError, match="there is no field 'gate'; declared are: delay, "):
            log.count(Query(where=(Condition("gate", Comparison.IS, "A1"),)))
        with pytest.raises(ReplayError, match="'delay' is a number, and 'much' is none"):
            log.count(Query(where=(Condition("delay", Comparison.IS, "much"),)))

    @settings(
        max_examples=some(60),
        deadline=None,
        suppress_health_check=[
            HealthCheck.function_scoped_fixture,
            HealthCheck.differing_executors,
            HealthCheck.too_slow,
        ],
    )
    @given(data=st.data())
    def test_a_query_finds_what_all_its_conditions_hold_for(
        self, log: ReplayLog, monkeypatch: pytest.MonkeyPatch, data: st.DataObject
    ) -> None:
        monkeypatch.setattr("stores.replay.writing.PERIOD", 50)
        monkeypatch.setattr("stores.replay.tallies._CHUNKS", 5)
        monkeypatch.setattr("stores.replay.tallies._FEWEST", 5)
        if not log.end():
            for n in range(3):
                log.append("moves", messages(20), {})
                log.append("gates", messages(20, topic="gates", site="jfk", metadata={}), {n: 1})
        everything = log.page(Query(), 1000).messages
        query, holds = data.draw(queries())
        query = Query.from_json(query.to_json())
        expected = [each for each in everything if holds(each)]
        assert log.page(query, 1000).messages == expected
        assert log.count(query) == len(expected)


def queries() -> st.SearchStrategy[tuple[Query, Callable[[CapturedMessage], bool]]]:
    """A query of up to three conditions, and the same in Python."""
    number = st.integers(-1, 21)
    some = st.one_of(
        st.just(("topics", ("moves",), lambda m: m.topic == "moves")),
        st.just(("sites", ("jfk", "lga"), lambda m: m.site == "jfk")),
        st.just(("partitions", (0, 2), lambda m: m.partition != 1)),
        st.just(("streams", ("s1", "s4"), lambda m: m.stream in ("s1", "s4"))),
        number.map(lambda n: ("since", TIME / 1000 + n, lambda m: m.time >= TIME + n * 1000)),
        number.map(lambda n: ("until", TIME / 1000 + n, lambda m: m.time < TIME + n * 1000)),
        number.map(lambda n: ("sequences", (n, n + 3), lambda m: n <= m.sequence <= n + 3)),
        number.map(lambda n: ("text", f'"n": {n}}}', lambda m: m.value == b'{"n": %d}' % n)),
        st.integers(0, 130).map(lambda n: ("after", n, lambda m: m.id > n)),
        st.integers(0, 130).map(lambda n: ("through", n, lambda m: m.id <= n)),
        number.map(
            lambda n: (
                "offsets",
                {"moves": {0: (max(n, 0), None), 1: (0, 110)}},
                lambda m: (
                    m.topic != "moves"
                    or (m.partition == 0 and m.offset >= n)
                    or (m.partition == 1 and m.offset < 110)
                ),
            )
        ),
        st.tuples(
            st.sampled_from(["tail", "delay", "share"]), st.sampled_from([*_HOLDS]), number
        ).map(_condition),
        st.just(("where", (Condition("tail", Comparison.BEGINS, "N1"),), _begins_with_n1)),
    )

    def joined(parts: list[Any]) -> tuple[Query, Callable[[CapturedMessage], bool]]:
        given: dict[str, Any] = {name: value for name, value, _ in parts}
        tests = {name: test for name, _, test in parts}
        return Query(**given), lambda message: all(test(message) for test in tests.values())

    return st.lists(some, max_size=3).map(joined)


_HOLDS: dict[Comparison, Callable[[Any, Any], bool]] = {
    Comparison.IS: lambda a, b: a == b,
    Comparison.NOT: lambda a, b: a != b,
    Comparison.LESS: lambda a, b: a < b,
    Comparison.AT_MOST: lambda a, b: a <= b,
    Comparison.MORE: lambda a, b: a > b,
    Comparison.AT_LEAST: lambda a, b: a >= b,
}


def _begins_with_n1(message: CapturedMessage) -> bool:
    return str(message.metadata.get("tail", "")).startswith("N1")


def _condition(drawn: tuple[str, Comparison, int]) -> Any:
    name, comparison, n = drawn
    values: dict[str, Any] = {"tail": f"N{n}", "delay": n, "share": n / 4}
    value = values[name]

    def holds(message: CapturedMessage) -> bool:
        if name not in message.metadata:
            return comparison is Comparison.NOT
        return _HOLDS[comparison](message.metadata[name], value)

    return "where", (Condition(name, comparison, value),), holds


class TestSqlite(ReplayLogContract):
    @pytest.fixture
    def engine(self, tmp_path: Path) -> Iterator[Engine]:
        engine = open_engine(f"sqlite:///{tmp_path / 'log.db'}")
        yield engine
        engine.dispose()

    @pytest.mark.parametrize("period", [50, 250_000])
    def test_a_file_that_may_not_grow_keeps_all_of_a_batch_or_nothing(
        self, log: ReplayLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, period: int
    ) -> None:
        # Pages are written before the commit, too, and a period ends where it has 50 messages.
        monkeypatch.setattr("stores.replay.writing._CACHE", 16 << 10)
        monkeypatch.setattr("stores.replay.writing.PERIOD", period)
        first, more = messages(50, value=b"x" * 2_000), messages(30, value=b"y" * 2_000)
        log.append("moves", first, {0: 50})
        refused = 0
        for pages in itertools.count():
            with files_of_at_most((tmp_path / "log.db-wal").stat().st_size + (pages << 14)):
                try:
                    log.append("moves", more, {0: 80})
                    break
                except OperationalError:
                    refused += 1
            assert (log.count(Query()), log.end(), log.positions("moves")) == (50, 50, {0: 50})
        assert refused > 2
        found = log.page(Query(), 100).messages
        assert [replace(each, id=0, captured=0, size=0) for each in found] == first + more
        assert log.count(Query(where=(Condition("delay", Comparison.AT_LEAST, 20),))) == 30 + 10
        assert log.positions("moves") == {0: 80}

    def test_a_disk_that_is_full_is_not_taken_for_somebody_who_reads(
        self, log: ReplayLog, engine: Engine, tmp_path: Path
    ) -> None:
        log.append("moves", messages(50, value=b"x" * 2_000), {})
        append_more(log)
        with engine.begin() as connection:
            connection.execute(update(PERIODS).values(begun=PERIODS.c.number))
        with files_of_at_most((tmp_path / "log.db-wal").stat().st_size):
            with pytest.raises(OperationalError, match="disk"):
                log.retain(1)
            assert (log.count(Query()), log.holes(Query())) == (53, [])
        assert sum(each.messages for each in log.retain(1)) == 50
        assert log.count(Query()) == 3


@contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    """Let no file of this process grow beyond this, as where a disk is full."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.integration
class TestPostgres(ReplayLogContract):
    @pytest.fixture
    def engine(self, database: str) -> Iterator[Engine]:
        engine = open_engine(database)
        yield engine
        engine.dispose()


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ([], "a query is a JSON object"),
        ({"topic": "moves"}, "a query has no 'topic'; it has after, "),
        ({"topics": "moves"}, "topics: 'moves' is not a list of at most 1000 texts"),
        ({"since": "now"}, "since: 'now' is not a time in seconds"),
        ({"since": float("nan")}, "since: nan is not"),
        (
            {"where": [["a", "~", 1]]},
            "where: .* is not a list of at most 100: .field, comparison, value",
        ),
        ({"sequences": [1]}, "sequences: .1. is not .lowest, highest."),
        ({"offsets": {"a": {"x": [0, 1]}}}, "offsets: "),
        ({"partitions": [2**31]}, "partitions: .* is not a list of at most 1000 numbers"),
        ({"offsets": {"a": {str(2**31): [0, 1]}}}, "offsets: "),
        ({"after": -1}, "after: -1 is not an id of the log"),
        ({"text": "\ud800"}, "text: "),
        ({"where": [["a", "=", "\ud800"]]}, "where: "),
        ({"where": [["a", "=", math.inf]]}, "where: .*, with numbers of at most 64 bits"),
        ({"where": [["a", "=", math.nan]]}, "where: "),
        ({"where": [["a", "=", 2**64]]}, "where: "),
        ({"where": [["a", "=", -(2**63)]]}, "where: "),
    ],
)
def test_a_query_that_is_none_is_named(given: Any, words: str) -> None:
    with pytest.raises(ReplayError, match=words):
        Query.from_json(given)


@pytest.mark.parametrize(
    ("text", "condition"),
    [
        ("tail=N1", Condition("tail", Comparison.IS, "N1")),
        ("delay>=60", Condition("delay", Comparison.AT_LEAST, "60")),
        ("tail!=a=b", Condition("tail", Comparison.NOT, "a=b")),
        ("tail^=N1", Condition("tail", Comparison.BEGINS, "N1")),
    ],
)
def test_a_condition_is_read(text: str, condition: Condition) -> None:
    assert Condition.parse(text) == condition


@pytest.mark.parametrize("text", ["", "tail", "=N1"])
def test_what_is_no_condition_is_refused(text: str) -> None:
    with pytest.raises(ReplayError, match="write FIELD=VALUE"):
        Condition.parse(text)
