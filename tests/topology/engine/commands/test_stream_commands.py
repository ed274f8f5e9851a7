"""What an operator can tell a view, what is refused, and the record of it."""

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.topology.engine.rebuilding import Rebuilding, orders, rebuilding
from tests.topology.handled import driver_of, order
from tests.topology.partition import board
from topology import (
    Event,
    TopologyTestDriver,
    Upsert,
    halt,
    monotonic,
    park,
    redeliver,
    retry,
    skip,
    spill,
)
from topology.declaration.ordered_stage import RELEASE
from topology.engine.commands.command import UNKNOWN_STREAM, Command
from topology.engine.commands.execute import execute
from topology.engine.commit_unit import CommitUnit


class Shop:
    """A driver whose handler fails for the sequences in `bad`."""

    def __init__(self, *bad: int, **policies: Any) -> None:
        self.bad = set(bad)
        self.calls: list[int] = []
        self.driver = driver_of(self.handler, **policies)

    def handler(self, event: Event, state: dict[str, Any]) -> Iterator[Upsert]:
        self.calls.append(event.sequence)
        if event.sequence in self.bad:
            raise ValueError(f"{event.sequence} is bad")
        state["seen"] = [*state.get("seen", []), event.sequence]
        yield Upsert("board", key={"id": event.stream}, values={"last": event.sequence})

    def pipe(self, *sequences: int) -> None:
        for sequence in sequences:
            self.driver.pipe("orders", order(sequence))

    @property
    def seen(self) -> list[int]:
        found: list[int] = self.driver.state("board", "a").get("seen", [])
        return found

    def adds_up(self) -> bool:
        counts = self.driver.counts("board")
        return counts.accounted == counts.received


def test_redrive_handles_a_parked_stream_again_in_order() -> None:
    shop = Shop(2, error=park())
    shop.pipe(1, 2, 3, 4)
    shop.bad.clear()
    result = shop.driver.command("redrive", "board", "a", who="ann")
    assert result.done
    assert result.facts == {"released": 3}
    assert shop.seen == [1, 2, 3, 4]
    counts = shop.driver.counts("board")
    assert (counts.processed, counts.parked, counts.waiting) == (4, 0, 0)


def test_a_redriven_stream_that_fails_again_is_parked_again() -> None:
    shop = Shop(2, 4, error=park())
    shop.pipe(1, 2, 3, 4, 5)
    shop.bad.remove(2)
    shop.driver.command("redrive", "board", "a")
    assert shop.seen == [1, 2, 3]
    assert shop.driver.waiting("board", "a") == [4, 5]
    assert shop.driver.counts("board").parked == 2
    assert shop.adds_up()


def test_redrive_of_a_stream_that_is_retried_starts_its_retries_anew() -> None:
    shop = Shop(1, error=retry(times=2, backoff=10))
    shop.pipe(1)
    shop.driver.advance(10)
    shop.driver.command("redrive", "board", "a")
    done = [report["done"] for report in shop.driver.read_json("shop.errors")]
    assert done == ["retry 1 of 2 in 10 s", "retry 2 of 2 in 20 s", "retry 1 of 2 in 10 s"]
    shop.bad.clear()
    shop.driver.advance(10)
    assert shop.seen == [1]


def test_a_dry_run_says_how_many_and_where_the_next_failure_is_and_changes_nothing() -> None:
    shop = Shop(2, 4, error=park())
    shop.pipe(1, 2, 3, 4, 5, 7)
    shop.bad.remove(2)
    shop.driver.read("shop.errors")
    before = shop.driver.counts("board"), shop.driver.state("board", "a")
    result = shop.driver.command("redrive", "board", "a", dry_run=True)
    assert (result.facts["released"], result.facts["fails"], result.facts["waits"]) == (2, 4, 2)
    assert "sequence 4 would fail" in result.message
    assert "ValueError: 4 is bad" in result.message
    assert (shop.driver.counts("board"), shop.driver.state("board", "a")) == before
    assert not shop.driver.read("shop.errors")
    assert shop.driver.waiting("board", "a") == [2, 3, 4, 5, 7]

    shop.bad.clear()
    result = shop.driver.command("redrive", "board", "a", dry_run=True)
    assert (result.facts["released"], result.facts["fails"], result.facts["waits"]) == (4, None, 1)


def test_a_dry_run_says_how_many_it_has_not_tried() -> None:
    """It said that they would wait, and so that none of them fails."""
    shop = Shop(1, error=park())
    task = shop.driver._runner.view("board")
    task.state.ordering = replace(task.state.ordering, drain=100)
    for sequence in range(1, 121):
        shop.driver.pipe("orders", order(sequence))
    shop.bad = {110}
    result = shop.driver.command("redrive", "board", "a", dry_run=True)
    facts = result.facts
    assert (facts["released"], facts["fails"]) == (100, None)
    assert (facts["waits"], facts["untried"]) == (0, 20)
    assert result.message.endswith(
        "100 events would be released; 20 more were not tried: a dry run tries 100 events or 16 MB"
    )
    shop.bad = {90}
    facts = shop.driver.command("redrive", "board", "a", dry_run=True).facts
    assert (facts["released"], facts["fails"]) == (89, 90)
    assert (facts["waits"], facts["untried"]) == (30, 0)


def test_a_dry_run_tries_what_has_settled_in_a_monotonic_view() -> None:
    shop = Shop(2, error=park(), sequence=monotonic(settle=1))
    shop.pipe(1, 2, 3)
    shop.driver.advance(2)
    shop.driver.advance(2)
    result = shop.driver.command("redrive", "board", "a", dry_run=True)
    assert (result.facts["released"], result.facts["fails"], result.facts["waits"]) == (0, 2, 1)
    shop.bad.clear()
    result = shop.driver.command("redrive", "board", "a", dry_run=True)
    assert (result.facts["released"], result.facts["fails"], result.facts["waits"]) == (2, None, 0)


def test_a_stream_of_which_nothing_waits_yet_is_not_unparked() -> None:
    # At least once, a crash may keep the row of a stream that is held, and not those that wait.
    shop = Shop(2, error=park())
    shop.pipe(1, 2)
    state = shop.driver._runner.view("board").state
    progress = state.waiting["a"]
    assert progress.ring is not None
    progress.ring.pop(2)
    result = shop.driver.command("unpark", "board", "a")
    assert not result.done
    assert "yet to come again" in result.message


def test_a_dry_run_awaits_a_handler_that_has_to_be() -> None:
    async def handler(event: Event) -> None:
        if event.sequence % 2 == 0:
            raise ValueError("even")

    driver = driver_of(handler, error=park())
    for sequence in (1, 2, 3):
        driver.pipe("orders", order(sequence))
    result = driver.command("redrive", "board", "a", dry_run=True)
    assert (result.facts["released"], result.facts["fails"]) == (0, 2)


def test_unpark_goes_on_without_the_failed_event_which_is_dead() -> None:
    shop = Shop(2, error=park())
    shop.pipe(1, 2, 3, 4)
    result = shop.driver.command("unpark", "board", "a", who="ann")
    assert result.done
    assert shop.seen == [1, 3, 4]
    counts = shop.driver.counts("board")
    assert (counts.dead, counts.parked, counts.processed) == (1, 0, 3)
    (dead,) = shop.driver.read("shop.dead")
    headers = dict(dead.headers)
    assert (dead.key, headers["view"], headers["sequence"]) == (b"a", b"board", b"2")
    assert b"ann" in headers["sequitur-reason"]
    assert shop.adds_up()
    shop.pipe(2)
    # It was never handled: another copy of it is late, no duplicate.
    counts = shop.driver.counts("board")
    assert (counts.late, counts.duplicate, counts.skipped) == (1, 0, 1)
    assert shop.adds_up()


@pytest.mark.parametrize("behind", [0, 5])
def test_unpark_of_a_stream_with_nothing_behind_or_more_than_a_ring(behind: int) -> None:
    shop = Shop(1, error=park(), buffer=2)
    shop.pipe(*range(1, 2 + behind))
    shop.driver.command("unpark", "board", "a")
    shop.driver.restart()
    assert shop.driver.last("board", "a") == 1 + behind
    assert shop.driver.waiting("board", "a") == []
    assert shop.adds_up()


def test_skip_gives_up_the_sequence_that_is_missing() -> None:
    shop = Shop()
    shop.pipe(1, 3, 4)
    result = shop.driver.command("skip", "board", "a", 2)
    assert result.done
    assert shop.seen == [1, 3, 4]
    assert shop.driver.counts("board").skipped == 1
    shop.pipe(2)
    assert shop.driver.counts("board").late == 1
    assert shop.adds_up()


@pytest.mark.parametrize(
    ("sequence", "reason"),
    [
        (1, "passed already"),
        (3, "waits for 2; to skip 3 skips 2 sequences"),
        (4, "would lose 1 waiting event up to 4"),
        (None, "the next one is 2"),
    ],
)
def test_skip_is_refused_when_it_is_not_the_missing_next_one(
    sequence: int | None, reason: str
) -> None:
    shop = Shop()
    shop.pipe(1, 4)
    result = shop.driver.command("skip", "board", "a", sequence)
    assert not result.done
    assert reason in result.message
    assert "stream a" in result.message
    assert shop.driver.waiting("board", "a") == [4]


def test_a_forced_skip_gives_up_all_up_to_there_and_loses_nothing_untold() -> None:
    shop = Shop(buffer=4, full=spill())
    shop.pipe(1, 4, 5, 9, 12, 20)
    result = shop.driver.command("skip", "board", "a", 10, force=True)
    assert result.facts == {"last": 10, "skipped": 6, "dead": 3}
    dead = [dict(record.headers)["sequence"] for record in shop.driver.read("shop.dead")]
    assert dead == [b"4", b"5", b"9"]
    assert shop.driver.waiting("board", "a") == [12, 20]
    assert shop.driver.last("board", "a") == 10
    assert shop.adds_up()
    shop.driver.restart()
    shop.pipe(3, 5, 11)
    counts = shop.driver.counts("board")
    # 5 is dead, and was never handled: another copy of it is late, too.
    assert (counts.late, counts.duplicate) == (2, 0)
    assert shop.seen == [1, 11, 12]


def test_a_skip_of_what_is_missing_stops_in_front_of_what_has_come_meanwhile() -> None:
    shop = Shop()
    shop.pipe(1, 5, 7)
    task = shop.driver._runner.view("board")
    only = Command("skip", "board", "a", 6, force=True, only_missing=True)
    unit = CommitUnit("orders", 0, now=shop.driver.now)
    tried = execute(task, replace(only, dry_run=True), unit)
    done = execute(task, only, unit)
    assert tried.facts == done.facts == {"last": 4, "skipped": 3, "dead": 0}
    assert list(unit.keyed) == ["shop.audit"]
    again = execute(task, only, CommitUnit("orders", 0, now=shop.driver.now))
    assert (again.done, again.message) == (
        False,
        "view board: stream a is at 4, and 5 is there: it goes on",
    )
    assert task.state.counts.dead == 0


def test_skip_of_a_parked_stream_names_the_commands_for_it() -> None:
    shop = Shop(2, error=park())
    shop.pipe(1, 2)
    result = shop.driver.command("skip", "board", "a", 2)
    assert not result.done
    assert "unpark" in result.message


def test_skip_knows_how_the_source_counts() -> None:
    shop = Shop()
    shop.pipe(1)
    result = shop.driver.command("skip", "board", "b", 1)
    assert not result.done
    assert "no stream 'b'" in result.message
    assert shop.driver.command("skip", "board", "b", 1, force=True).done
    assert shop.driver.last("board", "b") == 1


def test_halt_and_resume() -> None:
    shop = Shop()
    shop.pipe(1)
    assert shop.driver.command("halt", "board", who="ann").done
    shop.pipe(2)
    assert shop.driver.halted("board") == "by ann"
    assert shop.seen == [1]
    again = shop.driver.command("halt", "board", who="bob")
    assert (again.done, again.message) == (True, "view board is halted already: by ann")
    assert shop.driver.halted("board") == "by ann"
    assert shop.driver.command("resume", "board").done
    assert shop.seen == [1, 2]
    again = shop.driver.command("resume", "board")
    assert (again.done, again.message) == (True, "view board is not halted: it goes on")


def test_what_was_parked_stays_parked_when_a_view_is_resumed() -> None:
    shop = Shop(1, error=park())
    shop.pipe(1)
    shop.driver.command("halt", "board")
    shop.bad.clear()
    shop.driver.command("resume", "board")
    assert shop.driver.counts("board").parked == 1


def test_a_stream_of_a_halted_view_is_released_when_it_is_resumed() -> None:
    shop = Shop(1, error=halt())
    shop.pipe(1, 2, 3)
    result = shop.driver.command("unpark", "board", "a")
    assert "the view is halted" in result.message
    assert shop.seen == []
    shop.driver.restart()
    shop.driver.command("resume", "board")
    assert shop.seen == [2, 3]
    assert shop.adds_up()


def test_drop_forgets_a_stream() -> None:
    shop = Shop()
    shop.pipe(1, 2)
    assert shop.driver.command("drop", "board", "a").done
    assert (shop.driver.last("board", "a"), shop.seen) == (0, [])
    shop.pipe(1)
    shop.driver.restart()
    assert shop.seen == [1]
    assert shop.driver.counts("board").processed == 3
    assert shop.adds_up()


@pytest.mark.parametrize("restarts", [False, True])
def test_read_stores_take_what_a_dropped_stream_begins_anew_with(restarts: bool) -> None:
    driver = driver_of(lambda event: [Upsert("board", {"id": event.stream}, event.content)])
    for n, x in ((1, 10), (2, 20), (3, 30)):
        driver.pipe("orders", order(n) | {"x": x})
    for times in (1, 2):
        assert driver.command("drop", "board", "a").done
        if restarts:
            driver.restart()
        driver.pipe("orders", order(1) | {"x": 100 * times})
        assert [row["x"] for row in driver.table("board").values()] == [100 * times]
        assert json.loads(driver.read("shop.board")[-1].value or b"")["epoch"] == times


def test_drop_leaves_nothing_of_a_stream_that_its_partition_does_not_know() -> None:
    """Where nobody knows it, every partition is told to drop it."""
    shop = Shop(workers=2)
    shop.pipe(1)
    assert shop.driver.command("drop", "board", "b", force=True).done
    assert "has no stream 'b'" in shop.driver.command("drop", "board", "b").message


@pytest.mark.parametrize("bad", [(), (1,)])
def test_drop_is_refused_when_events_wait_and_loses_none_untold(bad: tuple[int, ...]) -> None:
    shop = Shop(*bad, error=park(), buffer=2, full=spill())
    shop.pipe(1, 3, 4, 8)
    result = shop.driver.command("drop", "board", "a")
    assert not result.done
    assert "force" in result.message
    waiting = shop.driver.waiting("board", "a")
    assert shop.driver.command("drop", "board", "a", force=True).done
    assert len(shop.driver.read("shop.dead")) == len(waiting)
    counts = shop.driver.counts("board")
    assert (counts.dead, counts.waiting, counts.parked) == (len(waiting), 0, 0)
    assert shop.driver.waiting("board", "a") == []
    assert shop.adds_up()
    shop.driver.restart()
    assert shop.driver.last("board", "a") == 0
    assert shop.driver.waiting("board", "a") == []


def test_drop_also_tells_the_second_stage_of_a_view_with_workers() -> None:
    shop = Shop(workers=2)
    shop.pipe(1, 2)
    assert shop.driver.command("drop", "board", "a").done
    [told] = shop.driver.read("shop.board.arrivals")
    assert (told.key, told.value, list(told.headers)) == (b"a", b"a", [(RELEASE, b"drop")])


@pytest.mark.parametrize("stages", [False, True])
def test_a_dry_run_of_what_the_first_stage_of_a_view_with_workers_parked_changes_nothing(
    stages: bool,
) -> None:
    shop = Shop(2, error=park(), workers=3)
    driver = shop.driver
    if stages:
        driver = TopologyTestDriver(driver.topology.first_stages(), strict=False)
    large = "y" * 1_200_000 if stages else ""  # too large for the topic between the stages
    for body in (order(1), order(2, more=large), order(3)):
        driver.pipe("orders", body)
    assert driver.read("shop.errors")
    before = driver.last("board", "a"), repr(driver.counts("board")), driver.waiting("board", "a")
    assert before[2] == [2, 3]
    result = driver.command("redrive", "board", "a", dry_run=True)
    assert (result.facts["released"], result.facts["fails"], result.facts["waits"]) == (0, 2, 1)
    assert driver.command("unpark", "board", "a", dry_run=True).facts["dead"] == 1
    after = driver.last("board", "a"), repr(driver.counts("board")), driver.waiting("board", "a")
    assert after == before
    assert not driver.read("shop.errors")
    assert not driver.read("shop.dead")


def test_every_command_is_audited_also_one_that_is_refused() -> None:
    shop = Shop(2, error=park())
    shop.pipe(1, 2)
    shop.driver.command("skip", "board", "a", 2, who="ann")
    shop.driver.command("redrive", "board", "a", who="bob", dry_run=True)
    shop.driver.command("unpark", "board", "a", who="bob")
    shop.driver.command("halt", "board", who="ann")
    records = shop.driver.read("shop.audit")
    assert [record.key for record in records] == [b"a", b"a", b"a", b"board"]
    audited = [json.loads(record.value or b"") for record in records]
    assert [(each["name"], each["who"], each["done"]) for each in audited] == [
        ("skip", "ann", False),
        ("redrive", "bob", True),
        ("unpark", "bob", True),
        ("halt", "ann", True),
    ]
    first = audited[0]
    assert (first["view"], first["stream"], first["sequence"]) == ("board", "a", 2)
    assert first["when"] == shop.driver.now
    assert (audited[1]["dry_run"], audited[2]["facts"]["dead"]) == (True, 1)
    assert all(each["message"] for each in audited)


@pytest.mark.parametrize(
    ("name", "more", "reason"),
    [
        ("rewind", {}, "there is no command 'rewind'; there are skip, redrive"),
        ("redrive", {}, "redrive needs a stream"),
        ("redrive", {"stream": "a"}, "stream a is not parked, it is at 1"),
        ("unpark", {"stream": "z"}, "has no stream 'z'"),
        ("halt", {"dry_run": True}, "has no dry run"),
    ],
)
def test_what_cannot_be_done_is_said(name: str, more: dict[str, Any], reason: str) -> None:
    shop = Shop()
    shop.pipe(1)
    result = shop.driver.command(name, "board", **more)
    assert not result.done
    assert reason in result.message
    assert bool(result.facts.get(UNKNOWN_STREAM)) is ("no stream" in reason)


COMMANDS = st.sampled_from(["skip", "redrive", "unpark", "halt", "resume", "drop"])
DOINGS = st.lists(
    st.one_of(
        st.tuples(st.just("pipe"), st.integers(1, 12), st.booleans()),
        st.tuples(COMMANDS, st.integers(1, 12), st.booleans()),
        st.tuples(st.just("mend"), st.integers(1, 12), st.booleans()),
        st.tuples(st.just("advance"), st.integers(1, 12), st.booleans()),
        st.tuples(st.just("restart"), st.just(0), st.just(False)),
    ),
    max_size=30,
)
POLICIES: list[dict[str, Any]] = [
    {"error": park(), "buffer": 2, "full": spill()},
    {"error": park(), "buffer": 3, "gap": skip(after=8), "full": redeliver(1, 40)},
    {"error": retry(2, 1, then=park()), "buffer": 2, "full": redeliver(1, 3)},
    {"error": halt(), "buffer": 2, "full": halt()},
]


def test_a_skip_up_to_an_event_beyond_the_ring_releases_it() -> None:
    shop = Shop(buffer=3, gap=skip(after=8), full=redeliver(1, 40))
    shop.pipe(5)
    assert shop.driver.command("skip", "board", "a", 4, force=True).done
    assert shop.driver.last("board", "a") == 5
    assert shop.driver.waiting("board", "a") == []


@pytest.mark.parametrize("policies", POLICIES, ids=str)
@given(doings=DOINGS)
def test_whatever_is_commanded_the_counts_add_up_and_order_is_kept(
    policies: dict[str, Any], doings: list[tuple[str, int, bool]]
) -> None:
    shop = Shop(3, 6, 7, **policies)
    handled: list[int] = []
    for what, number, force in doings:
        if what == "pipe":
            shop.pipe(number)
        elif what == "advance":
            shop.driver.advance(number)
        elif what == "restart":
            shop.driver.restart()
        elif what == "mend":
            shop.bad.discard(number)
        else:
            shop.driver.command(what, "board", "a", number, force=force)
        if what == "drop" and shop.driver.last("board", "a") == 0:
            handled = []
        handled += [value["sequence"] for value in shop.driver.read_json("shop.board")]
        assert handled == sorted(set(handled))
        counts = shop.driver.counts("board")
        assert counts.accounted == counts.received
        waiting = shop.driver.waiting("board", "a")
        assert len(waiting) == counts.waiting + counts.parked
        if not shop.driver.halted("board"):
            assert (
                shop.driver.last("board", "a") + 1 not in waiting
                or counts.parked
                or (policies["error"] == POLICIES[2]["error"])
            )
    assert min(vars_of(shop.driver)) >= 0


def vars_of(driver: TopologyTestDriver) -> list[int]:
    """All numbers of the view's counts."""
    counts = driver.counts("board")
    return [getattr(counts, name) for name in counts.__dataclass_fields__]


def test_the_handler_board_is_not_called_by_a_refused_command() -> None:
    driver = driver_of(board)
    assert not driver.command("redrive", "board", "a").done
    assert driver.counts("board").received == 0


def test_a_stream_that_is_dropped_twice_in_one_unit_loses_its_late_events_once() -> None:
    """Their rows are still in the table then."""
    partition = Rebuilding(rebuilding())
    partition.now = 1
    partition.feed(orders(("a", 1), ("a", 3)))
    partition.now += 10_000
    partition.feed([], horizon=partition.now)
    partition.feed(orders(("a", 2)))
    view, unit = partition.view(), CommitUnit("orders", 0, now=partition.now)
    assert view.state.counts.late == 1
    drop = Command("drop", "board", stream="a", force=True)
    told = [execute(view, drop, unit) for _ in range(2)]
    assert [each.facts["dead"] for each in told] == [1, 0]
    assert (view.state.counts.late, view.state.counts.dead) == (0, 1)
