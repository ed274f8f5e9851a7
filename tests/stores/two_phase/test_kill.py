"""Producers and databases are killed at any point; shop and log agree when all is up again."""

import random
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from checkout.postgres import Postgres
from soak_capture.place import Place
from soak_capture.producer import Transaction, in_one, place_many
from stores.two_phase.coordinator import Coordinator

pytestmark = pytest.mark.integration

STEPS = [
    "begun",
    "joined",
    "captured",
    "worked",
    "prepared log",
    "decided",
    "committed log",
    "ended",
]


Places = Callable[[str], Place]


@pytest.fixture
def places(
    postgres: Postgres, unique: Callable[[str], str], tmp_path: Path
) -> Iterator[Callable[[str], Place]]:
    """kind → a place: of one or two, with the shop in SQLite or PostgreSQL."""
    made: list[Place] = []

    def make(kind: str) -> Place:
        form, shop = kind.split("-")
        url = f"sqlite:///{tmp_path}/shop.sqlite"
        if shop == "postgres":
            url = postgres.new_database(unique("shop"))
        log = url if form == "one" else postgres.new_database(unique("log"))
        made.append(Place(form, url, log))
        return made[-1]

    yield make
    for place in made:
        place.close()


@pytest.mark.parametrize("kind", ["one-sqlite", "one-postgres", "two-sqlite", "two-postgres"])
def test_a_producer_that_is_killed_leaves_both_or_neither(places: Places, kind: str) -> None:
    place = places(kind)
    chance = random.Random(kind)
    kills = 0
    for seed in range(8):
        kills += place.produce(seed, chance.randrange(1, 400)) != 0
        assert place.wrong() == []
    assert kills == 8
    assert place.orders() > 8


@pytest.mark.parametrize("kind", ["two-sqlite", "two-postgres"])
def test_killed_at_each_step_of_the_protocol_both_or_neither(places: Places, kind: str) -> None:
    place = places(kind)
    for step in STEPS:
        assert place.produce(1, step) == -signal.SIGKILL, step
        assert place.wrong() == [], step


@pytest.mark.parametrize("kind", ["one-postgres", "two-postgres"])
def test_databases_that_are_killed_agree_when_they_are_up_again(
    kind: str, unique: Callable[[str], str]
) -> None:
    with Postgres() as shop_server, Postgres() as log_server:
        place = Place(
            kind.partition("-")[0],
            shop_server.new_database(unique("shop")),
            log_server.new_database(unique("log")),
        )
        chance = random.Random(kind)
        done = threading.Event()
        coordinator = Coordinator(place.shop, {"log": place.log})
        transaction: Transaction = coordinator.transaction
        if place.form == "one":
            transaction = in_one(place.shop, lambda _: None)

        def work() -> None:
            for seed in range(10_000):
                place_many(transaction, seed, lambda _: None, 40)
                if done.is_set():
                    return

        thread = threading.Thread(target=work)
        thread.start()
        try:
            for _ in range(6):
                before = place.orders()
                server = chance.choice([shop_server, log_server])
                time.sleep(chance.random() / 2)
                server.kill()
                time.sleep(chance.random() / 5)
                server.start()
                while place.orders() <= before:  # it is used again
                    time.sleep(0.02)
        finally:
            done.set()
            thread.join(120)
        assert not thread.is_alive()
        coordinator.close()
        assert place.wrong() == []
        place.close()
