"""Policies of the user's own: a small class for each, as a user would write it."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import pytest

from tests.topology.partition import INSPECTOR
from tests.topology.testing.simulation.simulated import sometimes
from topology import (
    DeclarationError,
    Event,
    Inspector,
    Latenesses,
    Topology,
    TopologyTestDriver,
    Upsert,
    adaptive,
    advance,
    park,
    rebuild_stream,
    redeliver,
    retry,
    skip,
)
from topology.declaration.policies import Gap
from topology.spark.supported import check_supported
from topology.testing import Delivery, Simulator, numbered


class ParkWhatIsWrong:
    """Retries what may pass, and parks what never will."""

    def on_error(self, event: Event, error: BaseException) -> Any:
        if isinstance(error, ConnectionError):
            return retry(times=2, backoff=1, then=advance())
        return park()


class Broken:
    def on_error(self, event: Event, error: BaseException) -> Any:
        raise LookupError("no such policy")


class Nonsense:
    def on_error(self, event: Event, error: BaseException) -> Any:
        return "park"


@dataclass(frozen=True)
class TwiceTheWorst:
    """Holds gaps for twice as long as the latest of the late events took."""

    start: float = 10.0
    at_least: float = 1.0
    at_most: float = 60.0

    def after(self, seen: Latenesses) -> float | None:
        return 2 * seen.all_but(0) if seen.weight >= 3 else None


class Raises(TwiceTheWorst):
    def after(self, seen: Latenesses) -> float | None:
        raise ZeroDivisionError


def handler(event: Event) -> Iterator[Upsert]:
    if (error := event.content.get("error")) is not None:
        raise {"away": ConnectionError, "wrong": ValueError}[error](error)
    yield Upsert("board", key={"id": event.stream}, values={"n": event.sequence})


def driver_of(**policies: Any) -> TopologyTestDriver:
    shop = Topology("shop")
    orders = shop.source("orders", inspector=Inspector(stream="id", sequence="n"))
    shop.view("board", of=orders, handler=handler, **policies)
    return TopologyTestDriver(shop)


def send(driver: TopologyTestDriver, sequence: int, stream: str = "A", **more: Any) -> None:
    driver.pipe("orders", {"id": stream, "n": sequence, **more})


def test_an_error_policy_decides_by_the_error() -> None:
    driver = driver_of(error=ParkWhatIsWrong())
    send(driver, 1, "A", error="wrong")
    send(driver, 1, "B", error="away")
    send(driver, 2, "B")
    assert driver.counts("board").parked == 1
    assert driver.last("board", "B") == 0
    driver.advance(seconds=10)
    assert (driver.last("board", "A"), driver.last("board", "B")) == (0, 2)
    assert [each["done"] for each in driver.read_json("shop.errors")] == [
        "park",
        "retry 1 of 2 in 1 s",
        "retry 2 of 2 in 2 s",
        "advance",
    ]


@pytest.mark.parametrize("policy", [Broken(), Nonsense()])
def test_an_error_policy_that_fails_parks_the_event(policy: Any) -> None:
    driver = driver_of(error=policy)
    send(driver, 1, error="wrong")
    send(driver, 2)
    assert driver.counts("board").parked == 2
    (report,) = driver.read_json("shop.errors")
    assert report["done"].startswith(f"park, since {type(policy).__name__} r")


def late_by(driver: TopologyTestDriver, seconds: float) -> None:
    """A stream of which event 1 comes `seconds` behind event 2."""
    stream = f"late by {seconds}"
    send(driver, 2, stream)
    driver.advance(seconds)
    send(driver, 1, stream)


def test_a_gap_time_is_learned_by_the_policy() -> None:
    driver = driver_of(gap=skip(after=TwiceTheWorst()))
    for seconds in (1, 2, 3):
        late_by(driver, seconds)
    send(driver, 2)
    driver.advance(seconds=5.9)
    assert driver.last("board", "A") == 0
    driver.advance(seconds=0.5)
    assert driver.last("board", "A") == 2


def test_a_gap_time_that_fails_is_that_of_the_start() -> None:
    driver = driver_of(gap=skip(after=Raises()))
    for seconds in (1, 2, 3):
        late_by(driver, seconds)
    send(driver, 2)
    driver.advance(seconds=9.9)
    assert driver.last("board", "A") == 0
    driver.advance(seconds=0.2)
    assert driver.last("board", "A") == 2


@pytest.mark.parametrize("bounds", [(10, 20, 30), (0, 0, 0), ("10", 1, 20)])
def test_a_gap_time_s_bounds_are_checked(bounds: tuple[Any, Any, Any]) -> None:
    with pytest.raises(DeclarationError, match="at_least"):
        skip(after=TwiceTheWorst(*bounds))


def test_late_events_are_chosen_for_a_rebuild() -> None:
    late = rebuild_stream(when=lambda event: "minor" not in event.content)
    driver = driver_of(gap=skip(after=1), late=late)
    send(driver, 3)
    driver.advance(seconds=2)
    send(driver, 1, minor=True)
    assert driver.counts("board").late == 1
    (record,) = driver.read("shop.late")
    assert b"`when` says no" in dict(record.headers)["sequitur-reason"]
    send(driver, 2)
    assert driver.counts("board").late == 1
    assert driver.counts("board").processed == 2


def test_delays_of_redelivery_are_chosen() -> None:
    asked: list[tuple[int, int]] = []

    def backoff(attempt: int, ahead: int) -> float:
        asked.append((attempt, ahead))
        return 7.0 if attempt < 3 else 0 / 0

    driver = driver_of(buffer=1, full=redeliver(delay=1, backoff=backoff))
    send(driver, 2)
    send(driver, 9)
    driver.advance(seconds=6.9)
    assert asked == [(1, 9)]
    driver.advance(seconds=0.2)
    assert asked == [(1, 9), (2, 9)]
    driver.advance(seconds=100)  # where it fails, the delay is the built-in one
    assert len(asked) > 2
    for sequence in (1, *range(3, 9)):
        send(driver, sequence)
    driver.advance(seconds=100)
    assert driver.last("board", "A") == 9


@pytest.mark.parametrize(
    "declare",
    [
        lambda: driver_of(error=ParkWhatIsWrong),
        lambda: driver_of(error=object()),
        lambda: rebuild_stream(when=7),  # type: ignore[arg-type]
        lambda: redeliver(backoff=7),  # type: ignore[arg-type]
        lambda: skip(after=object()),  # type: ignore[arg-type]
    ],
)
def test_what_is_no_policy_is_refused(declare: Any) -> None:
    with pytest.raises(DeclarationError, match=r"use|must be"):
        declare()


class OfOneArgument:
    def on_error(self, event: Event) -> Any:
        return park()


class Asynchronous(TwiceTheWorst):
    async def on_error(self, event: Event, error: BaseException) -> Any:
        return park()

    async def after(self, seen: Latenesses) -> float | None:  # type: ignore[override]
        return 1.0

    async def follows(self, event: Event, last: int | None) -> bool:
        return True


class OfNone(TwiceTheWorst):
    on_error = 1

    def after(self) -> float | None:  # type: ignore[override]
        return 1.0


async def asynchronous(*arguments: Any) -> Any:
    return 1.0


@pytest.mark.parametrize(
    ("declare", "words"),
    [
        (lambda: rebuild_stream(when=asynchronous), r"rebuild_stream\(when=.*it is async"),  # type: ignore[arg-type]
        (lambda: rebuild_stream(when=lambda: True), r"rebuild_stream\(when=.*with one event"),  # type: ignore[arg-type,misc]
        (lambda: redeliver(backoff=asynchronous), r"redeliver\(backoff=.*it is async"),  # type: ignore[arg-type]
        (lambda: redeliver(backoff=lambda tries: 1.0), "give it attempt and distance"),  # type: ignore[arg-type,misc]
        (lambda: skip(after=TwiceTheWorst), "must be a number of seconds"),  # type: ignore[arg-type]
        (lambda: skip(after=Asynchronous()), "after: it is async"),  # type: ignore[arg-type]
        (lambda: skip(after=OfNone()), "after: it cannot be called with one"),  # type: ignore[arg-type]
        (lambda: driver_of(error=OfOneArgument()), "on_error: .* give it event and error"),
        (lambda: driver_of(error=Asynchronous()), "on_error: it is async"),
        (lambda: driver_of(error=OfNone()), "on_error must be a function of event and error"),
        (
            lambda: Topology("shop").source("o", inspector=INSPECTOR, sequence=Asynchronous()),  # type: ignore[arg-type]
            "follows: it is async",
        ),
    ],
)
def test_what_a_policy_calls_is_a_plain_function_of_what_it_is_given(
    declare: Any, words: str
) -> None:
    with pytest.raises(DeclarationError, match=words):
        declare()


def test_own_policies_are_described() -> None:
    driver = driver_of(error=ParkWhatIsWrong(), gap=skip(after=TwiceTheWorst()))
    text = str(driver.topology.describe())
    assert "error ParkWhatIsWrong(…)" in text
    assert "gap skip(after=twice_the_worst(start=10, at_least=1, at_most=60))" in text
    assert adaptive() == adaptive()


@dataclass(frozen=True)
class Least(ParkWhatIsWrong):
    least: float = float("nan")
    most: float = float("inf")


def test_numbers_that_are_none_are_described() -> None:
    assert "error least(least=nan, most=inf)" in str(driver_of(error=Least()).topology.describe())


@dataclass(frozen=True, slots=True)
class AtTeatime(Gap):
    """As one of Sequitur's policies: all that differs by policy is asked of the class."""

    skips: ClassVar[bool] = True

    @property
    def first(self) -> float:
        return 3.0

    least = most = first

    @property
    def more_than_a_stream(self) -> str:
        return "it takes a pot for all; use skip(after=3)"


def test_a_policy_is_a_class_and_nothing_has_a_list_of_them() -> None:
    driver = driver_of(gap=AtTeatime(), full=redeliver(delay=0.5))
    send(driver, 2)
    driver.advance(seconds=2.9)
    assert not driver.explain("board", "A").well
    driver.advance(seconds=0.2)
    assert driver.last("board", "A") == 2
    assert driver.audit().sound
    assert "gap at_teatime()" in str(driver.topology.describe())
    with pytest.raises(DeclarationError, match=r"make the delay 0\.75 s or less"):
        driver_of(gap=AtTeatime(), full=redeliver(delay=1))
    with pytest.raises(DeclarationError, match=r"gap=at_teatime\(\).* use skip\(after=3\)"):
        check_supported(driver.topology)
    topology = Topology("shop")
    orders = topology.source("orders", inspector=INSPECTOR, keyed=True)
    topology.view("board", of=orders, handler=sometimes, gap=AtTeatime())
    assert Simulator(topology, numbered(topology, 20, 2)).run(range(10)).seeds == 10


def test_no_schedule_breaks_a_promise_of_own_policies() -> None:
    topology = Topology("shop")
    orders = topology.source("orders", inspector=INSPECTOR, keyed=True)
    topology.view(
        "board",
        of=orders,
        handler=sometimes,
        error=ParkWhatIsWrong(),
        gap=skip(after=TwiceTheWorst(start=2, at_least=1, at_most=4)),
    )
    delivery = Delivery(late=0.4, twice=0.1, never=0.1)
    report = Simulator(topology, numbered(topology, 30, 3), delivery=delivery).run(range(30))
    assert report.failed > 0
