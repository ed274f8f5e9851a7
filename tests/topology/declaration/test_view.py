"""A view's handler: one or two arguments, plain or async; and its policies in ordering terms."""

import functools
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from tests.topology.handled import run
from tests.topology.partition import shop
from topology import DeclarationError, Upsert, skip
from topology.declaration.orders.contiguous_order import JUMP
from topology.declaration.view import handler_shape
from topology.sequencer.contiguous import ContiguousOrdering


def one(event: Any) -> None: ...
def two(event: Any, state: Any) -> None: ...
def generates(event: Any) -> Iterator[Any]:
    yield from ()


async def async_one(event: Any) -> list[Upsert]:
    return [Upsert("t", {"id": 1}, {"n": event.sequence})]


async def async_two(event: Any, state: Any) -> None: ...
async def async_generates(event: Any, state: Any) -> AsyncIterator[Any]:
    for item in (event, state):
        yield item


class Plain:
    def __call__(self, event: Any) -> None: ...
    def method(self, event: Any, state: Any) -> None: ...
    async def async_method(self, event: Any) -> None: ...
    @staticmethod
    def static(event: Any) -> None: ...


class Async:
    async def __call__(self, event: Any, state: Any) -> None: ...


@pytest.mark.parametrize(
    ("handler", "stateful", "is_async"),
    [
        (one, False, False),
        (two, True, False),
        (generates, False, False),
        (lambda event: [], False, False),
        (lambda event, limit=5: [], False, False),
        (lambda event, *rest, **more: [], False, False),
        (async_one, False, True),
        (async_two, True, True),
        (async_generates, True, True),
        (Plain(), False, False),
        (Plain().method, True, False),
        (Plain().async_method, False, True),
        (Plain.static, False, False),
        (Async(), True, True),
        (functools.partial(two, state={}), False, False),
        (functools.partial(async_two, state={}), False, True),
        (functools.partial(async_generates), True, True),
    ],
)
def test_a_handler_s_shape(handler: Any, stateful: bool, is_async: bool) -> None:
    assert handler_shape("board", handler) == (1 + stateful, is_async)


def keyword_only(event: Any, *, database: Any) -> None: ...


@pytest.mark.parametrize(
    "handler",
    [
        lambda: [],
        lambda event, state, cells, more: [],
        lambda *events: [],
        keyword_only,
        lambda **fields: [],
    ],
)
def test_a_handler_of_another_arity_is_a_mistake_that_names_the_view(handler: Any) -> None:
    with pytest.raises(DeclarationError, match=r"view 'board'.*handler") as error:
        handler_shape("board", handler)
    assert "handler(event), handler(event, state) or handler(event, state, cells)" in str(
        error.value
    )


@pytest.mark.parametrize("handler", [None, 5, "handler"])
def test_what_cannot_be_called_is_a_mistake_that_names_the_view(handler: Any) -> None:
    with pytest.raises(DeclarationError, match="view 'board'"):
        handler_shape("board", handler)


def test_a_partial_of_an_async_handler_is_awaited() -> None:
    assert run(functools.partial(async_one)).counts("board").processed == 1


def test_a_view_orders_by_its_source_s_sequence_and_its_own_policies() -> None:
    topology = shop(start=0, step=10, buffer=16, gap=skip(after=1.5))
    expected = ContiguousOrdering(start=0, step=10, size=16, skip_after=1500, jump=JUMP * 10)
    assert topology.views["board"].ordering == expected


def test_a_skip_of_less_than_a_millisecond_is_still_later_than_now() -> None:
    assert shop(gap=skip(after=0.0001)).views["board"].ordering.skip_after == 1


def test_without_skip_a_gap_has_no_deadline() -> None:
    assert shop().views["board"].ordering.skip_after is None
