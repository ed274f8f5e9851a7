"""Where streams begin and end, against a plain model; restarts may come at any point."""

from typing import Any, ClassVar

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from tests.topology.handled import driver_of, order
from topology import (
    DeclarationError,
    Event,
    Inspector,
    Topology,
    TopologyTestDriver,
    Upsert,
    earliest_seen,
    first,
    linked,
    monotonic,
    opened_by,
    park,
    skip,
)
from topology.declaration.starts import Closing

ANY: Any = None


def kind_of(sequence: int) -> str:
    return {1: "Opened", 0: "Closed"}.get(sequence % 5, "Changed")


class Life:
    """One stream from its start to its end, and again."""

    def __init__(self, machine: type["Machine"]) -> None:
        self.rules = machine
        self.last = 0
        self.closed: int | None = None
        self.waiting: dict[int, int] = {}
        self.given_up: set[int] = set()
        self.handled: list[int] = []
        self.received = self.late = self.duplicates = self.skipped = 0
        self.reopened = self.dropped = 0

    @property
    def new(self) -> bool:
        return self.last == 0 or self.closed is not None

    def arrive(self, sequence: int, now: int) -> None:
        self.received += 1
        if sequence in self.given_up and sequence <= self.last:
            self.given_up.remove(sequence)
            self.late += 1
        elif sequence <= self.last:
            self.duplicates += 1
        elif self.closed is not None and not self.rules.reopens:
            self.late += 1
        elif sequence in self.waiting:
            self.duplicates += 1
        else:
            if self.rules.opened and self.new and kind_of(sequence) == "Opened":
                self.drop_below(sequence)
                self.waiting[sequence] = now
                self.handle(now)
                return
            self.waiting[sequence] = now
            if not (self.rules.opened and self.new):
                self.handle(now)

    def drop_below(self, sequence: int) -> None:
        lost = [each for each in self.waiting if each < sequence]
        self.late += len(lost)
        for each in lost:
            del self.waiting[each]
        self.go_to(sequence)

    def go_to(self, sequence: int) -> int:
        missing = range(self.last + 1, sequence)
        self.given_up.update(missing)
        self.last = sequence - 1
        return len(missing)

    def handle(self, now: int) -> None:
        while self.last + 1 in self.waiting:
            self.last += 1
            del self.waiting[self.last]
            self.handled.append(self.last)
            if self.closed is not None:
                self.closed = None
                self.reopened += 1
            if self.rules.closes and kind_of(self.last) == "Closed":
                self.closed = now + 10_000
                if not self.rules.reopens:
                    self.late += len(self.waiting)
                    self.waiting.clear()
                elif self.rules.opened:
                    openers = [each for each in self.waiting if kind_of(each) == "Opened"]
                    if not openers:
                        return
                    self.drop_below(min(openers))
                    self.closed = None
                    self.reopened += 1

    def advance(self, now: int) -> None:
        while self.waiting:
            opening = self.new and self.rules.earliest is not None
            after = self.rules.earliest if opening else self.rules.after
            if after is None or min(self.waiting.values()) + 1000 * after > now:
                break
            missed = self.go_to(min(self.waiting))
            self.skipped += 0 if opening else missed
            self.handle(now)
        if self.closed is not None and self.closed <= now and not self.waiting:
            self.last, self.closed, self.given_up = 0, None, set()
            self.dropped += 1


class Machine(RuleBasedStateMachine):
    opened: ClassVar[bool] = False
    earliest: ClassVar[int | None] = None
    after: ClassVar[int | None] = None
    closes: ClassVar[bool] = False
    reopens: ClassVar[bool] = False

    def __init__(self) -> None:
        super().__init__()
        policies: dict[str, Any] = {}
        if self.opened:
            policies["start"] = opened_by("Opened")
        if self.earliest is not None:
            policies["start"] = earliest_seen(after=self.earliest)
        if self.after is not None:
            policies["gap"] = skip(after=self.after)
        if self.closes:
            policies |= {"closes": "Closed", "retention": 10}
            policies["reopen"] = "start" if self.reopens else "late"
        self.handled: dict[str, list[int]] = {"a": [], "b": []}

        def handler(event: Event, state: dict[str, Any]) -> Any:
            state["count"] = state.get("count", 0) + 1
            self.handled[event.stream].append(event.sequence)

        self.driver = driver_of(handler, **policies)
        self.lives = {stream: Life(type(self)) for stream in "ab"}

    @rule(stream=st.sampled_from("ab"), ahead=st.integers(-3, 6), batch=st.booleans())
    def an_event_comes(self, stream: str, ahead: int, batch: bool) -> None:
        life = self.lives[stream]
        for sequence in {max(1, life.last + ahead), max(1, life.last + batch)}:
            message = order(sequence, stream, kind_of(sequence))
            self.driver.pipe("orders", message)
            life.arrive(sequence, self.driver.now)

    @rule(seconds=st.sampled_from([1, 3, 12]))
    def time_passes(self, seconds: int) -> None:
        for _ in range(seconds):
            self.driver.advance(1)
            for life in self.lives.values():
                life.advance(self.driver.now)

    @rule()
    def the_process_restarts(self) -> None:
        self.driver.restart()

    @invariant()
    def streams_are_where_the_model_says(self) -> None:
        lives = self.lives.values()
        for stream, life in self.lives.items():
            assert self.handled[stream] == life.handled
            assert self.driver.last("board", stream) == life.last
            waits = sorted(self.driver.buffer("board", stream).values())
            assert waits == sorted(life.waiting)
            if life.new:
                assert self.driver.state("board", stream) == {}
        counts = self.driver.counts("board")
        assert counts.accounted == counts.received == sum(life.received for life in lives)
        assert counts.late == sum(life.late for life in lives)
        assert counts.duplicate == sum(life.duplicates for life in lives)
        assert counts.skipped == sum(life.skipped for life in lives)
        assert counts.reopened == sum(life.reopened for life in lives)
        assert counts.dropped == sum(life.dropped for life in lives)


class Earliest(Machine):
    earliest = 2


class EarliestThenSkip(Machine):
    earliest, after = 2, 4


class Opened(Machine):
    opened = True


class OpenedOrSkipped(Machine):
    opened, after = True, 3


class Closes(Machine):
    closes = True


class ClosesAndReopens(Machine):
    closes = reopens = True


class ClosesAndSkips(Machine):
    closes, after = True, 3


class OpensAndCloses(Machine):
    opened = closes = reopens = True


class OpensClosesAndSkips(Machine):
    opened = closes = reopens = True
    after = 3


class SeenAndClosed(Machine):
    closes = reopens = True
    earliest, after = 2, 4


TestEarliest, TestEarliestThenSkip = Earliest.TestCase, EarliestThenSkip.TestCase
TestOpened, TestOpenedOrSkipped = Opened.TestCase, OpenedOrSkipped.TestCase
TestCloses, TestReopens = Closes.TestCase, ClosesAndReopens.TestCase
TestClosesAndSkips, TestBoth = ClosesAndSkips.TestCase, OpensAndCloses.TestCase
TestSeen, TestAll = SeenAndClosed.TestCase, OpensClosesAndSkips.TestCase


def linked_driver(handled: list[int], **policies: Any) -> TopologyTestDriver:
    topology = Topology("docs")
    source = topology.source(
        "docs", inspector=Inspector("id", "rev", "kind"), sequence=linked(previous="before")
    )

    def handler(event: Event) -> Any:
        handled.append(event.sequence)
        yield Upsert("docs", key={"id": event.stream}, values={"rev": event.sequence})

    topology.view("board", of=source, handler=handler, **policies)
    return TopologyTestDriver(topology)


def test_a_chain_joined_midway_begins_with_the_lowest_that_came() -> None:
    handled: list[int] = []
    driver = linked_driver(handled, start=earliest_seen(after=5))
    for rev, before in ((50, 40), (40, 30), (70, 60)):
        driver.pipe("docs", {"id": "a", "rev": rev, "before": before, "kind": "Edited"})
    driver.advance(5)
    driver.pipe("docs", {"id": "a", "rev": 30, "before": 20, "kind": "Edited"})

    assert handled == [40, 50]
    counts = driver.counts("board")
    assert (counts.late, counts.skipped, counts.waiting) == (1, 0, 1)


@pytest.mark.parametrize("buffer", [64, 1])
@pytest.mark.parametrize("chain", [False, True])
def test_a_copy_of_what_waits_opens_no_stream(chain: bool, buffer: int) -> None:
    """It stood still then, though its next event was there."""
    handled: list[int] = []
    policies: dict[str, Any] = {"start": opened_by("Opened"), "buffer": buffer}

    def pipe(number: int, kind: str) -> None:
        if chain:
            of = {"id": "a", "rev": number, "before": number - 1, "kind": kind}
            driver.pipe("docs", of)
        else:
            driver.pipe("orders", order(number, kind=kind))

    if chain:
        driver = linked_driver(handled, **policies)
    else:
        driver = driver_of(lambda event: handled.append(event.sequence), **policies)
    for number, kind in ((13, "Changed"), (13, "Opened"), (14, "Changed")):
        pipe(number, kind)
    assert (handled, driver.waiting("board", "a")) == ([], [13, 14])
    counts = driver.counts("board")
    assert (counts.duplicate, counts.conflicts) == (1, 1)
    pipe(12, "Opened")
    assert (handled, driver.waiting("board", "a")) == ([12, 13, 14], [])


def test_where_a_stream_has_begun_its_gap_has_the_time_of_gaps_not_of_beginnings() -> None:
    handled: list[int] = []
    driver = driver_of(
        lambda event: handled.append(event.sequence),
        start=earliest_seen(after=60),
        gap=skip(after=5),
    )
    driver.pipe("orders", order(9, kind="Changed"))
    driver.advance(1)
    driver.pipe("orders", order(1, kind="Changed"))
    driver.advance(5)
    assert handled == [1, 9]


def test_and_so_has_that_of_a_chain() -> None:
    handled: list[int] = []
    driver = linked_driver(handled, start=earliest_seen(after=60), gap=skip(after=5))
    driver.pipe("docs", {"id": "a", "rev": 90, "before": 80, "kind": "Edited"})
    driver.advance(1)
    driver.pipe("docs", {"id": "a", "rev": 1, "before": None, "kind": "Edited"})
    driver.advance(5)
    assert handled == [1, 90]


def test_a_chain_may_be_opened_by_a_kind_in_its_middle() -> None:
    handled: list[int] = []
    driver = linked_driver(handled, start=opened_by("Opened"))
    for rev, before, kind in ((5, None, "Edited"), (50, 40, "Edited"), (40, 30, "Opened")):
        driver.pipe("docs", {"id": "a", "rev": rev, "before": before, "kind": kind})

    assert handled == [40, 50]
    assert driver.counts("board").late == 1


class Chain:
    """An order of one's own that goes by what events name, as links do."""

    def follows(self, event: Event, last: int | None) -> bool:
        return bool(event.content["before"] == last)


CHAINS = {"linked": linked(previous="before"), "own": Chain()}


def chain_driver(
    sequence: Any, seen: list[tuple[int, int]], bad: set[int], **policies: Any
) -> TopologyTestDriver:
    """`seen` gets the sequences that were handled, and the how-manieth each is in its state."""
    topology = Topology("docs")
    source = topology.source("docs", inspector=Inspector("id", "rev", "kind"), sequence=sequence)

    def handler(event: Event, state: dict[str, Any]) -> None:
        if event.sequence in bad:
            raise ValueError("broken")
        state["n"] = state.get("n", 0) + 1
        seen.append((event.sequence, state["n"]))

    closing: dict[str, Any] = {"closes": "Closed", "retention": 60, "reopen": "start"}
    topology.view("board", of=source, handler=handler, **closing | policies)
    return TopologyTestDriver(topology, strict=False)


def pipe_chain(driver: TopologyTestDriver, *links: tuple[int, int | None]) -> None:
    """Event 2 closes its stream."""
    for rev, before in links:
        kind = "Closed" if rev == 2 else "Edited"
        driver.pipe("docs", {"id": "a", "rev": rev, "before": before, "kind": kind})


@pytest.mark.parametrize("start", [first(), earliest_seen(after=60)])
@pytest.mark.parametrize("restart", [False, True])
@pytest.mark.parametrize("early", [False, True])
@pytest.mark.parametrize("order", CHAINS)
def test_a_chain_that_was_closed_begins_again(
    order: str, early: bool, restart: bool, start: Any
) -> None:
    seen: list[tuple[int, int]] = []
    driver = chain_driver(CHAINS[order], seen, set(), start=start)
    links: list[tuple[int, int | None]] = [(1, None), (2, 1), (10, None), (11, 10)]
    if early:
        # What begins it again waits for the closing event.
        links = [links[0], *links[2:], links[1]]
    for link in links:
        pipe_chain(driver, link)
        if restart:
            driver.restart()
    assert seen == [(1, 1), (2, 2), (10, 1), (11, 2)]
    counts = driver.counts("board")
    assert (counts.reopened, counts.waiting, counts.skipped) == (1, 0, 0)
    assert driver.audit().sound


@pytest.mark.parametrize("order", CHAINS)
def test_a_chain_begins_again_when_the_event_that_failed_there_is_redriven(order: str) -> None:
    seen: list[tuple[int, int]] = []
    bad = {10}
    driver = chain_driver(CHAINS[order], seen, bad, error=park())
    pipe_chain(driver, (1, None), (2, 1), (10, None), (11, 10))
    assert (seen, driver.counts("board").reopened) == ([(1, 1), (2, 2)], 0)
    driver.restart()
    bad.clear()
    driver.command("redrive", "board", "a")
    assert seen == [(1, 1), (2, 2), (10, 1), (11, 2)]
    assert driver.counts("board").reopened == 1
    assert driver.audit().sound


def test_however_many_streams_are_closed_all_are_dropped_in_time() -> None:
    handler: Any = lambda event: None  # noqa: E731
    driver = driver_of(handler, closes={"Closed"}, retention=60)
    for number in range(50):
        driver.pipe("orders", order(1, f"s{number}", "Closed"))
        driver.advance(1)
    driver.restart()
    driver.advance(20)
    assert driver.counts("board").dropped == 11
    assert {key[:1] for key in driver._storage.stores["board"].rows} == {b"c", b"d", b"p"}
    driver.advance(60)
    assert driver.counts("board").dropped == 50
    assert {key[:1] for key in driver._storage.stores["board"].rows} == {b"c"}


def test_the_closing_event_sees_the_state_for_the_last_time_and_async_as_well() -> None:
    seen: list[dict[str, Any]] = []

    async def handler(event: Event, state: dict[str, Any]) -> list[Upsert]:
        seen.append(dict(state))
        state["at"] = event.sequence
        return []

    driver = driver_of(handler, closes="Closed", retention=60, reopen="start")
    for sequence, kind in ((1, "Placed"), (2, "Closed"), (3, "Placed")):
        driver.pipe("orders", order(sequence, kind=kind))
    assert seen == [{}, {"at": 1}, {}]


def test_a_stream_that_begins_again_behind_a_closing_event_that_failed_has_no_state() -> None:
    seen: list[dict[str, Any]] = []

    def handler(event: Event, state: dict[str, Any]) -> None:
        if event.kind == "Closed":
            raise ValueError("broken")
        seen.append(dict(state))
        state["at"] = event.sequence

    driver = driver_of(handler, closes="Closed", retention=60, reopen="start")
    for sequence, kind in ((1, "Placed"), (2, "Closed"), (3, "Placed")):
        driver.pipe("orders", order(sequence, kind=kind))
    assert seen == [{}, {}]
    assert driver.counts("board").failed == 1


@pytest.mark.parametrize("restart", [False, True])
@pytest.mark.parametrize("reopen", ["late", "start"])
def test_a_stream_ends_with_a_closing_event_that_it_was_unparked_without(
    reopen: str, restart: bool
) -> None:
    seen: list[tuple[int, int]] = []

    def handler(event: Event, state: dict[str, Any]) -> None:
        if event.kind == "Closed":
            raise ValueError("broken")
        state["n"] = state.get("n", 0) + 1
        seen.append((event.sequence, state["n"]))

    driver = driver_of(handler, error=park(), closes="Closed", retention=60, reopen=reopen)
    for sequence, kind, stream in (
        (1, "Placed", "a"), (2, "Closed", "a"), (3, "Placed", "a"), (4, "Placed", "a"),
        (1, "Placed", "b"), (2, "Closed", "b"),
    ):  # fmt: skip
        driver.pipe("orders", order(sequence, stream, kind))
    if restart:
        driver.restart()
    seen.clear()
    for stream, behind in (("a", 2 if reopen == "start" else 0), ("b", 0)):
        dry = driver.command("unpark", "board", stream, dry_run=True).facts
        assert driver.command("unpark", "board", stream).facts == dry
        assert dry["released"] == behind
    if restart:
        driver.restart()
    counts = driver.counts("board")
    assert (counts.dead, counts.parked, counts.waiting) == (2, 0, 0)
    if reopen == "start":
        assert seen == [(3, 1), (4, 2)]
        assert (counts.late, counts.reopened) == (0, 1)
    else:
        assert (seen, counts.late, counts.reopened) == ([], 2, 0)
        assert len(driver.read("shop.late")) == 2
    assert driver.state("board", "b") == {}
    assert driver.audit().sound
    driver.advance(61)
    assert driver.counts("board").dropped == (1 if reopen == "start" else 2)


@pytest.mark.parametrize(
    ("declare", "reason"),
    [
        (lambda: earliest_seen(after=0), "earliest_seen(after=0): after must be a number"),
        (lambda: opened_by(), "opened_by(): name the kinds as texts"),
        (lambda: driver_of(print, start="first"), "use first(), earliest_seen(after=…) or"),
        (lambda: driver_of(print, retention=5), "retention and reopen go with closes=…"),
        (lambda: driver_of(print, closes="Closed"), "retention=None; say for how many seconds"),
        (lambda: driver_of(print, closes=(), retention=5), "closes=(): name the kinds"),
        (
            lambda: driver_of(print, closes="Closed", retention=5, reopen="never"),
            "reopen='never'; use 'late' or 'start'",
        ),
        (
            lambda: driver_of(print, closes="Closed", retention=5, accepts={"Placed"}),
            "it is closed by 'Closed', which it does not accept; add it to accepts",
        ),
    ],
)
def test_a_mistake_says_what_to_write_instead(declare: Any, reason: str) -> None:
    with pytest.raises(DeclarationError) as mistake:
        declare()
    assert reason in str(mistake.value)


def test_a_monotonic_source_begins_with_what_has_settled() -> None:
    topology = Topology("shop")
    source = topology.source(
        "orders", inspector=Inspector("id", "at"), sequence=monotonic(settle=1)
    )
    with pytest.raises(DeclarationError, match="leave start out"):
        topology.view("board", of=source, handler=print, start=earliest_seen(after=1))


def test_a_description_shows_start_and_end() -> None:
    handler: Any = lambda event: None  # noqa: E731
    driver = driver_of(handler, start=opened_by("Opened"), closes="Closed", retention=60)
    text = str(driver.topology.describe())
    assert "start openedby" not in text
    assert "start opened_by('Opened')" in text
    assert "closes 'Closed', retention 60, reopen late" in text
    (view,) = driver.topology.views.values()
    assert view.closing == Closing(("Closed",), 60.0, "late")
    assert driver_of(handler, start=first()).topology.describe().views[0].start == "first()"


@pytest.mark.parametrize(
    ("start", "cause", "what"),
    [
        (
            opened_by("Placed", "Found"),
            "no event of kind 'Found' or 'Placed' has come, and 2 events wait for it",
            "the stream begins as soon as an event of kind 'Found' or 'Placed' comes",
        ),
        (
            earliest_seen(after=60),
            "it has yet to begin, and 2 events wait for lower ones",
            "it begins with sequence 3, or a lower one",
        ),
    ],
)
def test_what_a_stream_waits_for_to_begin_with_is_told(start: Any, cause: str, what: str) -> None:
    """It was told to wait for sequence 1, which need not be there."""
    driver = driver_of(lambda event: None, start=start)
    for sequence in (3, 5):
        driver.pipe("orders", order(sequence, kind="Changed"))
    told = driver.explain("board", "a")
    assert told.causes == (cause,)
    assert what in told.next[0].what


def test_a_stream_of_which_the_first_number_waits_is_not_told_to_wait_for_it() -> None:
    driver = driver_of(lambda event: None, start=opened_by("Placed"))
    for sequence in (1, 2):
        driver.pipe("orders", order(sequence, kind="Changed"))
    told = driver.explain("board", "a")
    assert told.causes == ("no event of kind 'Placed' has come, and 2 events wait for it",)
    assert "begins as soon as an event of kind 'Placed' comes" in told.next[0].what
