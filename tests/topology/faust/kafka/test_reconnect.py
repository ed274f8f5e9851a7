"""A broker that is away is not stormed: what one client learned of it, all of a worker know."""

import asyncio
import importlib
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from itertools import pairwise

import pytest
from aiokafka import client
from aiokafka.errors import KafkaError
from hypothesis import given
from hypothesis import strategies as st

from sequitur.local.ports import HOST
from topology.faust.kafka import reconnect
from topology.faust.kafka.reconnect import LONGEST, Address


class Closed:
    """A port where whoever connects is turned away; counts them."""

    def __init__(self) -> None:
        self.count = 0
        self._socket = socket.create_server((HOST, 0))
        self.port: int = self._socket.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._socket.accept()
                self.count += 1
                client.close()

    def close(self) -> None:
        self._socket.close()


@pytest.fixture
def closed() -> Iterator[Closed]:
    found = Closed()
    yield found
    found.close()


async def storm(port: int, clients: int, tries: int) -> None:
    """So many clients try to connect, each again as soon as it has failed."""

    async def one() -> None:
        for _ in range(tries):
            with suppress(KafkaError, OSError):
                await client.create_conn(HOST, port)

    await asyncio.gather(*(one() for _ in range(clients)))


async def test_clients_that_ask_again_and_again_do_not_storm_a_broker_that_is_away(
    closed: Closed,
) -> None:
    await storm(closed.port, clients=20, tries=6)
    # 120 asked. When the first of them was turned away, the 19 others were on their way. Then each
    # was told no after a moment, so that it took a second: as often as delays that double allow.
    assert 0 < closed.count < 20 + 15


async def test_a_broker_that_is_back_is_found_and_then_nobody_waits(
    closed: Closed, monkeypatch: pytest.MonkeyPatch
) -> None:
    await storm(closed.port, clients=5, tries=3)
    made: list[int] = []

    async def answers(host: str, port: int, **how: object) -> object:
        made.append(port)
        return "connection"

    monkeypatch.setattr(reconnect, "_create", answers)
    began = time.monotonic()
    while not made:
        assert time.monotonic() < began + 60
        with suppress(KafkaError):
            await client.create_conn(HOST, closed.port)
    first = len(made)
    assert [await client.create_conn(HOST, closed.port) for _ in range(50)] == ["connection"] * 50
    assert len(made) == first + 50


async def test_one_address_that_is_away_holds_up_no_other(closed: Closed) -> None:
    other = Closed()
    try:
        await storm(closed.port, clients=1, tries=2)
        with suppress(KafkaError, OSError):
            await client.create_conn(HOST, other.port)
        assert other.count == 1
    finally:
        other.close()


@given(gaps=st.lists(st.floats(min_value=0, max_value=0.5), min_size=1, max_size=400))
def test_however_often_it_is_asked_an_address_that_is_away_is_tried_at_bounded_times(
    gaps: list[float],
) -> None:
    address, now, tried = Address("here:1"), 100.0, []
    for gap in gaps:
        now += gap
        if address.turn(now):
            tried.append(now)
            address.failed(now)
    for number, (one, next_) in enumerate(pairwise(tried), 1):
        assert next_ - one >= min(reconnect.FIRST * 2.0**number, LONGEST) * 0.5
    # And it is not forgotten: who asks late enough is let through.
    assert address.turn(now + LONGEST + 0.001)


def test_every_client_of_aiokafka_connects_in_turn() -> None:
    importlib.import_module("topology.faust.kafka.clients")
    assert client.create_conn is reconnect.connect
