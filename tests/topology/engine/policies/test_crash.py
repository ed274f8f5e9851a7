"""Policies and crashes: a unit that is lost, and made again, gives the same result."""

from itertools import cycle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.topology.deliveries import Arrival, cuts, deliveries, fed
from tests.topology.engine.policies.failing import FOR_EVER, Faults
from tests.topology.partition import FATES, Partition
from topology import adaptive, advance, halt, park, redeliver, retry, skip, spill
from topology.engine.commands.execute import Command, execute

FAILS = st.dictionaries(
    st.tuples(st.sampled_from("abc"), st.integers(1, 9)),
    st.sampled_from([1500, 4000, 9000, FOR_EVER]),
    max_size=5,
)
POLICIES: list[dict[str, Any]] = [
    {"buffer": 2, "full": redeliver(delay=1, limit=5)},
    {"buffer": 2, "full": redeliver(delay=1, limit=20), "gap": skip(after=4)},
    {"error": retry(times=3, backoff=1), "buffer": 2},
    {"error": retry(times=2, backoff=0.5, then=park()), "full": redeliver(1, 3), "buffer": 3},
    {"error": park(), "gap": skip(after=3), "full": spill(), "buffer": 2},
    {"error": halt()},
    {"error": advance(), "gap": skip(after=adaptive(0.4, start=4, at_least=0.5, at_most=9))},
    {"gap": skip(after=adaptive(0.4, start=4, at_least=2)), "full": redeliver(0.5, 9000)},
]
TOPICS = ["board", "errors", "late", "parked", "dead", "audit", "board.redeliver"]


def live(
    partition: Partition, arrivals: list[Arrival], sizes: list[int], fates: list[str]
) -> Partition:
    """Feed batches, and do what is due; a unit that is lost is made again."""
    fate = cycle(fates)

    def pass_time(until: int) -> None:
        while (due := partition.due) <= until:
            partition.now = max(partition.now, int(due))
            partition.feed_fated([], partition.now, fate)
        partition.now = until

    for at, together in fed(arrivals, sizes):
        pass_time(at - 1)
        partition.now = at
        for batch in together:
            if not partition.view().halted:
                partition.feed_fated(batch, None, fate)
        pass_time(at)
    pass_time(20_000)
    return partition


def told(partition: Partition) -> dict[str, Any]:
    return {topic: partition.by_key(f"shop.{topic}") for topic in [*TOPICS]} | {
        "log": partition.by_key("log")
    }


@pytest.mark.parametrize("policies", POLICIES, ids=str)
@given(arrivals=deliveries(), sizes=cuts(), fates=FATES, fails=FAILS)
def test_crashes_change_neither_rows_nor_outputs(
    policies: dict[str, Any],
    arrivals: list[Arrival],
    sizes: list[int],
    fates: list[str],
    fails: dict[tuple[str, int], int],
) -> None:
    calm = live(Faults(fails).partition(**policies), arrivals, sizes, ["goes well"])
    crashing = live(Faults(fails).partition(**policies), arrivals, sizes, fates)

    assert crashing.durable() == calm.durable()
    assert told(crashing) == told(calm)
    assert crashing.view().state.counts == calm.view().state.counts
    counts = calm.view().state.counts
    assert counts.accounted == counts.received
    assert min(getattr(counts, name) for name in counts.__dataclass_fields__) >= 0


COMMANDS = [
    Command("skip", "board", "a", 9, force=True),
    Command("redrive", "board", "a"),
    Command("unpark", "board", "a"),
    Command("drop", "board", "a", force=True),
    Command("halt", "board"),
]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.name)
@given(arrivals=deliveries(streams="ab"), sizes=cuts(), failing=st.integers(1, 6))
def test_a_command_that_is_lost_and_given_again_does_the_same(
    command: Command, arrivals: list[Arrival], sizes: list[int], failing: int
) -> None:
    found = []
    for lost in (False, True):
        faults = Faults({("a", failing): FOR_EVER})
        partition = faults.partition(error=park(), buffer=2, full=spill())
        live(partition, arrivals, sizes, ["goes well"])
        for attempt in range(1 + lost):
            unit, _ = partition.task.begin([], partition.now)
            execute(partition.view(), command, unit)
            partition.task.finish(unit)
            if attempt == 0 and lost:
                partition.crash()
                continue
            partition.commit(unit)
            if lost:
                partition.crash()
        while partition.task.unfinished:
            partition.feed([])
        found.append((partition.durable(), told(partition), partition.view().state.counts))
    assert found[0] == found[1]


@given(arrivals=deliveries(), sizes=cuts(), fails=FAILS, at=st.integers(0, 40))
def test_a_parked_stream_that_is_redriven_in_the_end_comes_to_what_never_failed(
    arrivals: list[Arrival], sizes: list[int], fails: dict[tuple[str, int], int], at: int
) -> None:
    calm = live(Faults().partition(), arrivals, sizes, ["goes well"])
    faults = Faults(fails)
    partition = faults.partition(error=park(), buffer=2, full=spill())
    live(partition, arrivals[:at], sizes, ["goes well"])
    live(partition, arrivals[at:], sizes, ["goes well"])
    faults.until.clear()
    for stream in "abc":
        unit, _ = partition.task.begin([], partition.now)
        execute(partition.view(), Command("redrive", "board", stream), unit)
        partition.commit(unit)
        while partition.task.unfinished:
            partition.feed([])
    assert partition.handled() == calm.handled()
    for stream in "abc":
        assert partition.view().state.stream_state(stream) == calm.view().state.stream_state(stream)
        assert partition.waiting(stream) == calm.waiting(stream)
    assert partition.view().state.counts == calm.view().state.counts
