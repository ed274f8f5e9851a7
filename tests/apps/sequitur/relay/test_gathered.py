"""What is handed over gathers up to a limit, and is taken all at once."""

import asyncio

from sequitur.relay.gathered import Gathered


async def test_all_that_gathered_is_taken_in_its_order() -> None:
    gathered = Gathered[int]()
    assert not gathered.there.is_set()
    await gathered.put([1, 2], limit=3)
    await gathered.put([], limit=3)
    await gathered.put([3], limit=3)
    assert gathered.there.is_set()
    assert gathered.take() == [1, 2, 3]
    assert not gathered.there.is_set()
    assert gathered.take() == []


async def test_what_is_beyond_the_limit_waits_until_the_rest_was_taken() -> None:
    gathered = Gathered[int]()
    await gathered.put([1, 2], limit=3)
    more = asyncio.create_task(gathered.put([3, 4], limit=3))
    for _ in range(5):
        await asyncio.sleep(0)
    assert not more.done()
    assert gathered.take() == [1, 2]
    await asyncio.wait_for(more, 10)
    assert gathered.take() == [3, 4]


async def test_what_is_too_much_by_itself_goes_alone() -> None:
    gathered = Gathered[int]()
    await asyncio.wait_for(gathered.put([1, 2, 3], limit=2), 10)
    assert gathered.take() == [1, 2, 3]
