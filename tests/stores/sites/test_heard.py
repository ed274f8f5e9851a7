"""A message counts as copied by the position of its own topic, and not where it was given up."""

import asyncio

import pytest

from stores.sites.errors import GivenUp
from stores.sites.heard import Heard
from stores.sites.origin import Origin
from stores.sites.site import Position

WHERE = "movements", 0


def sent(offset: int) -> Origin:
    return Origin("newark", *WHERE, offset)


async def is_copied(heard: Heard, offset: int, id: str | None) -> bool:
    waiting = asyncio.create_task(heard.copied(sent(offset), id))
    await asyncio.sleep(0)
    return waiting.done() or not waiting.cancel()


async def test_the_position_of_another_topic_of_that_name_acknowledges_nothing() -> None:
    heard = Heard(["kennedy", "idlewild"])
    waiting = asyncio.create_task(heard.copied(sent(3), "new"))
    await asyncio.sleep(0)
    heard.position("kennedy", WHERE, Position(10, "old"))
    await asyncio.sleep(0)
    assert not waiting.done()
    assert [await is_copied(heard, 3, id) for id in ("new", "old", None)] == [False, True, True]
    assert heard.is_anew(sent(3), "new")
    assert not heard.is_anew(sent(3), "old")
    heard.position("idlewild", WHERE, Position(4, "new"))
    await waiting
    assert not await is_copied(heard, 4, "new")


async def test_what_was_given_up_is_waited_for_in_vain_only_where_no_peer_has_it() -> None:
    heard = Heard(["kennedy", "idlewild"])
    waiting = asyncio.create_task(heard.copied(sent(2), "id"))
    await asyncio.sleep(0)
    for first, last in [(5, 6), (0, 2), (0, 2)]:
        heard.loss("kennedy", WHERE, first, last)
    heard.position("kennedy", WHERE, Position(8, "id"))
    found = [await is_copied(heard, offset, "id") for offset in range(9)]
    assert found == [False] * 3 + [True] * 2 + [False] * 2 + [True, False]
    assert not waiting.done(), "another peer may have it"
    heard.loss("idlewild", WHERE, 1, 2)
    heard.position("idlewild", WHERE, Position(3, "id"))
    with pytest.raises(GivenUp, match="newark/movements/0/2 was deleted"):
        await waiting
    assert await is_copied(heard, 0, "id")
