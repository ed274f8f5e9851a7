"""A view with workers that is halted stays so over restarts, until an operator resumes it."""

from collections.abc import AsyncIterator
from typing import Any

import orjson
import pytest

from tests.topology.faust.worker.ordered.in_memory import Partition
from topology import Emit, Event, Inspector, Topology, halt
from topology.diagnostics.explain.bad_news import HALTED
from topology.diagnostics.explain.work_tally import StageTally, WorkTally
from topology.engine.state.rows import WORK
from topology.engine.state.work_status import WorkStatus, decode_work_status
from topology.faust.worker.ordered import stage_status
from topology.model.event import Record


def view(handler: Any, **options: Any) -> Partition:
    topology = Topology("t")
    source = topology.source("in", inspector=Inspector("id", "n"))
    topology.view("work", of=source, workers=4, handler=handler, **options)
    held = Partition(topology)
    object.__setattr__(held.stage.work.rules, "backoff", 0.001)
    return held


def tell(held: Partition, name: str, *, done: bool = True, view: str = "work") -> None:
    """An operator's command, as the first stage audits it."""
    body = orjson.dumps({"name": name, "view": view, "who": "ann", "done": done})
    held.orders.take([Record("t.audit", 0, held.orders.end, None, body)])


def status(held: Partition) -> WorkStatus:
    return decode_work_status(held.table.get(WORK))


async def test_a_view_whose_policy_halted_it_is_halted_after_a_restart_until_it_is_resumed() -> (
    None
):
    broken = True

    async def handler(event: Event) -> AsyncIterator[Emit]:
        if broken and event.stream == "b":
            raise ValueError("boom")
        yield Emit("out", None, event.stream)

    held = view(handler, error=halt(), commit="arrival")
    for name in "abc":
        held.log.append(name, {"id": name, "n": 1})
    held.start()
    await held.until(lambda: status(held).halted is not None)
    assert "stream b failed at sequence 1: ValueError: boom" in (status(held).halted or "")
    await held.runner.stop(1)

    broken = False
    held.new_run()
    held.start()
    held.log.append("d", {"id": "d", "n": 1})
    await held.until(lambda: held.runner.core.in_hand == 3)
    assert held.runner.core.halted
    assert held.runner.core.standing == (3, 0, 0)
    tell(held, "resume", view="another")
    tell(held, "resume", done=False)
    assert not held.runner.status.heed()
    tell(held, "resume")
    await held.until(lambda: held.out("out") == list("abcd"))
    assert status(held).halted is None
    await held.runner.stop(1)


async def test_what_a_parallel_stage_holds_up_is_bad_news_until_the_next_start() -> None:
    broken = True

    async def handler(event: Event) -> AsyncIterator[Emit]:
        if broken and event.stream == "b":
            raise ValueError("boom")
        yield Emit("out", None, event.stream)

    topology = Topology("t")
    topology.parallel("work", topic="in", workers=4, handler=handler, error=halt())
    held = Partition(topology)
    object.__setattr__(held.stage.work.rules, "backoff", 0.001)
    held.new_run()
    for name in "abbc":
        held.log.append(name, {})
    held.start()
    await held.until(lambda: status(held).halted is not None)
    assert "stream b failed at sequence 1: ValueError: boom" in (status(held).halted or "")
    assert not held.runner.core.halted
    held.log.append("d", {})
    await held.until(lambda: held.out("out") == list("acd"))
    tally = WorkTally(0, 2, True, 1, 0, 0, status(held), "me", 0)
    assert [each.place for each in StageTally("work", (tally,)).troubles] == [HALTED]
    await held.runner.stop(1)

    broken = False
    held.new_run()
    held.start()
    await held.until(lambda: sorted(held.out("out")) == list("abbcd"))
    await held.until(lambda: status(held).halted is None)
    await held.runner.stop(1)


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")

    __repr__ = __str__


@pytest.mark.parametrize(
    "error", [Unspeakable(), ValueError("\udcff"), ValueError("x" * 3_000_000)]
)
async def test_whatever_an_error_says_it_halts_its_view_and_no_more(error: Exception) -> None:
    async def handler(event: Event) -> list[Emit]:
        raise error

    held = view(handler, error=halt())
    held.log.append("a", {"id": "a", "n": 1})
    held.start()
    await held.until(lambda: status(held).halted is not None)
    assert len(held.table.get(WORK) or b"") < 10_000
    await held.runner.stop(1)


async def test_resume_has_the_failed_event_tried_again_without_a_restart() -> None:
    broken = True

    async def handler(event: Event) -> AsyncIterator[Emit]:
        if broken and event.stream == "b":
            raise ValueError("boom")
        yield Emit("out", None, event.stream)

    held = view(handler, error=halt(), commit="arrival")
    for name in "abc":
        held.log.append(name, {"id": name, "n": 1})
    held.start()
    await held.until(lambda: status(held).halted is not None)
    broken = False
    tell(held, "resume")
    await held.until(lambda: held.out("out") == list("abc"))
    await held.runner.stop(1)


async def test_an_operator_halts_what_has_arrived_too_and_a_restart_heeds_it_once() -> None:
    async def handler(event: Event) -> AsyncIterator[Emit]:
        yield Emit("out", None, event.stream)

    held = view(handler)
    tell(held, "halt")
    held.new_run()
    held.log.append("a", {"id": "a", "n": 1})
    held.start()
    await held.until(lambda: status(held).halted == "by ann")
    assert not held.out("out")
    await held.runner.stop(1)
    held.new_run()
    assert held.runner.core.halted
    tell(held, "resume")
    held.start()
    await held.until(lambda: held.out("out") == ["a"])
    await held.runner.stop(1)
    held.new_run()
    assert not held.runner.core.halted
    # The audit topic is made anew: what is there now is new.
    held.orders.end, held.orders.latest = 0, {}
    tell(held, "halt")
    assert held.new_run().core.halted


async def test_the_row_says_what_is_in_hand_and_what_happened_over_all_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(stage_status, "EVERY", 0.02)

    async def handler(event: Event) -> AsyncIterator[Emit]:
        if event.stream == "b":
            raise ValueError("boom")
        yield Emit("out", None, event.stream)

    held = view(handler)
    object.__setattr__(held.stage.work.rules, "retries", 0)
    for run in (1, 2):
        for name in "ab":
            held.log.append(name, {"id": name, "n": run})
        held.start()
        await held.until(lambda run=run: status(held).counts.get("committed") == 2 * run)  # type: ignore[misc]
        assert (status(held).failed, status(held).running, status(held).paused) == (run, 0, False)
        await held.runner.stop(1)
        held.new_run()


def test_outputs_that_an_earlier_version_did_not_count_are_not_known() -> None:
    assert decode_work_status(None).written == 0
    assert decode_work_status(b'{"failed":1}').written is None
    known = decode_work_status(WorkStatus(written=3).encode())
    assert known.written == 3


@pytest.mark.parametrize(
    "row",
    [
        b"7",
        b'{"halted":7}',
        b'{"orders":-1}',
        b'{"counts":{"lost":"x"}}',
        b'{"paused":1}',
        b'{"malformed":-1}',
    ],
)
def test_a_row_that_is_no_status_is_refused(row: bytes) -> None:
    with pytest.raises((ValueError, TypeError, AttributeError)):
        decode_work_status(row)
