"""What is handed over gathers up to a limit, and is taken all at once."""

import asyncio

from sequitur.relay.batch_queue import BatchQueue


async def test_all_that_gathered_is_taken_in_its_order() -> None:
    batch_queue = BatchQueue[int]()
    assert not batch_queue.there.is_set()
    await batch_queue.put([1, 2], limit=3)
    await batch_queue.put([], limit=3)
    await batch_queue.put([3], limit=3)
    assert batch_queue.there.is_set()
    assert batch_queue.take() == [1, 2, 3]
    assert not batch_queue.there.is_set()
    assert batch_queue.take() == []


async def test_of_what_is_there_as_much_is_taken_as_there_is_room_for_but_one_at_least() -> None:
    batch_queue = BatchQueue[int]()
    await batch_queue.put([1, 2, 9, 3, 4], limit=5)
    more = asyncio.create_task(batch_queue.put([5], limit=5))
    taken = []
    while batch_queue:
        assert batch_queue.there.is_set()
        taken.append(batch_queue.take(7, lambda thing: thing))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    assert taken == [[1, 2], [9], [3, 4], [5]]
    assert not batch_queue.there.is_set()
    assert more.done()


async def test_what_is_beyond_the_limit_waits_until_the_rest_was_taken() -> None:
    batch_queue = BatchQueue[int]()
    await batch_queue.put([1, 2], limit=3)
    more = asyncio.create_task(batch_queue.put([3, 4], limit=3))
    for _ in range(5):
        await asyncio.sleep(0)
    assert not more.done()
    assert batch_queue.take() == [1, 2]
    await asyncio.wait_for(more, 60)
    assert batch_queue.take() == [3, 4]


async def test_what_is_too_much_by_itself_goes_alone() -> None:
    batch_queue = BatchQueue[int]()
    await asyncio.wait_for(batch_queue.put([1, 2, 3], limit=2), 10)
    assert batch_queue.take() == [1, 2, 3]
