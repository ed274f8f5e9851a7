"""What handlers, rules and logs do wrong hangs, stops and loses nothing. In memory."""

import asyncio
import itertools
import threading
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import pytest

from tests.topology.faust.worker.ordered.in_memory import TOPIC, Partition
from tests.topology.faust.worker.ordered.test_ordered_runner import number, partition
from topology import (
    Emit,
    ErrorPolicy,
    Event,
    Inspector,
    Malformed,
    Message,
    Topology,
    Touched,
    Upsert,
    advance,
    halt,
    key,
    opened_by,
    park,
    retry,
    wait_and_commit,
    wait_and_roll_back,
)
from topology.declaration.ordered_stage import ARRIVED, FORCED_DROP, RELEASE
from topology.diagnostics.explain.bad_news import MALFORMED
from topology.diagnostics.explain.work_tally import StageTally, WorkTally
from topology.engine.state.foreign_rows import foreign
from topology.engine.state.rows import HOLES, WORK, decode_holes, encode_holes
from topology.engine.state.work_status import decode_work_status
from topology.faust.worker.ordered import ordered_runner, settling, workers
from topology.faust.worker.ordered.ordered_partition import OrderedPartition
from topology.faust.worker.writing.writer import BATCH_BYTES
from topology.model.origin_headers import ORIGIN, ORIGIN_KEY
from topology.ordered_commit import OffsetRanges


@pytest.mark.parametrize(
    "kind", [StopIteration, GeneratorExit, SystemExit, KeyboardInterrupt, asyncio.CancelledError]
)
@pytest.mark.parametrize("threads", [False, True])
async def test_whatever_a_handler_raises_fails_its_event_alone(
    kind: type[BaseException], threads: bool
) -> None:
    def in_thread(event: Event) -> list[Emit]:
        if number(event) == 0:
            raise kind("boom")
        return [Emit("out", None, number(event))]

    async def handler(event: Event) -> list[Emit]:
        return in_thread(event)

    held = partition(in_thread if threads else handler)
    held.log.append("a", 0)
    held.log.append("b", 1)
    held.start()
    await held.until(lambda: held.out("out") == [1])
    assert len(held.out("t.errors")) == 1
    await held.runner.stop(1)


async def test_a_function_of_the_users_that_exits_ends_no_worker() -> None:
    def exits(*_: Any) -> Any:
        raise SystemExit("boom")

    class Exits(ErrorPolicy):
        def on_error(self, event: Event, error: BaseException) -> Any:
            raise SystemExit("boom")

    async def handler(event: Event) -> list[Emit]:
        if event.sequence == 1:
            raise ValueError
        if event.stream == "slow":
            await asyncio.sleep(0.3)
        return [Emit("out", None, event.stream)]

    for options in ({"touches": exits}, {"older": wait_and_commit(0.05, critical=exits)}):
        held = _work(handler, error=Exits(), start_order=exits, commit="arrival", **options)
        for stream, each in (("slow", 2), ("a", 2), ("b", 1)):
            held.log.append(stream, {"n": each})
        held.start()
        await held.until(lambda held=held: held.runner.core.position == 3)  # type: ignore[misc]
        assert held.out("out") == ["slow", "a"]
        assert "SystemExit" in held.out("t.errors")[0]["done"]
        await held.runner.stop(1)


@pytest.mark.parametrize("awaits", [False, True])
async def test_a_handler_that_cancels_itself_has_failed_and_its_worker_goes_on(
    awaits: bool,
) -> None:
    async def handler(event: Event) -> list[Emit]:
        task = asyncio.current_task()
        if number(event) == 0 and task is not None:
            task.cancel()
            if awaits:
                await asyncio.sleep(0)
        return [Emit("out", None, number(event))]

    held = partition(handler, workers=1)
    for each in (0, 1, 2):
        held.log.append("a", each)
    held.start()
    await held.until(lambda: held.runner.core.position == 3)
    assert held.out("out") == ([1, 2] if awaits else [0, 1, 2])
    assert len(held.out("t.errors")) == awaits
    await held.runner.stop(1)


async def test_an_attempt_sees_nothing_of_what_the_one_before_it_made_of_the_content() -> None:
    tries = []

    async def handler(event: Event) -> list[Emit]:
        amount = event.content.pop("amount")
        tries.append(amount)
        if len(tries) == 1:
            raise TimeoutError
        return [Emit("out", event.stream, amount)]

    held = _work(handler)
    held.log.append("a", {"n": 1, "amount": 5})
    held.start()
    await held.until(lambda: held.runner.core.position == 1)
    assert held.out("out") == [5]
    await held.runner.stop(1)


async def test_the_next_attempt_at_an_event_that_others_wait_for_is_told_so_too() -> None:
    tries = []

    async def handler(event: Event) -> list[Emit]:
        if number(event) == 0:
            tries.append(0)
            await event.hurry.wait()
            if len(tries) == 1:
                raise TimeoutError
        return [Emit("out", None, number(event))]

    held = partition(handler)
    held.log.append("a", 0)
    held.log.append("b", 1)
    held.start()
    await held.until(lambda: held.out("out") == [0, 1])
    await held.runner.stop(1)


async def test_an_attempt_that_makes_an_error_of_its_cancellation_harms_no_later_one() -> None:
    tries = []

    async def handler(event: Event) -> AsyncIterator[Emit]:
        tries.append(number(event))
        if len(tries) == 1:
            try:
                await asyncio.sleep(30)
            except asyncio.CancelledError:
                raise TimeoutError("of a client") from None
        if len(tries) == 2:
            raise asyncio.CancelledError  # as of something that it awaited
        yield Emit("out", None, number(event))

    held = partition(handler, time_limit=0.5, workers=1)
    held.log.append("a", 0)
    held.start()
    await held.until(lambda: held.out("out") == [0])
    assert len(tries) >= 3  # a slow machine's third attempt may be over its limit, too
    await held.runner.stop(1)


async def test_a_worker_whose_handler_heeds_no_cancellation_ends_with_it() -> None:
    let_go, begun = asyncio.Event(), asyncio.Event()

    async def handler(event: Event) -> list[Emit]:
        while not let_go.is_set():
            begun.set()
            with suppress(asyncio.CancelledError):
                await let_go.wait()
        return []

    held = partition(handler, workers=1)
    held.log.append("a", 0)
    held.start()
    await begun.wait()
    before = asyncio.all_tasks()
    stopping = asyncio.create_task(held.runner.stop(0))
    await asyncio.sleep(0.05)
    let_go.set()
    await stopping
    left = before & asyncio.all_tasks() - {asyncio.current_task()}
    assert not left


async def test_handlers_that_await_nothing_let_others_have_their_turn() -> None:
    beats, at_beat = 0, []

    async def handler(event: Event) -> AsyncIterator[Emit]:
        at_beat.append(beats)
        # Enough work for each, that all of them take several breaths, on any machine.
        until = time.perf_counter() + 0.0003
        while time.perf_counter() < until:
            pass
        yield Emit("out", None, number(event))

    async def beat() -> None:
        nonlocal beats
        while True:
            beats += 1
            await asyncio.sleep(0)

    held = partition(handler, workers=1)
    for name in range(500):
        held.log.append(f"k{name}", name)
    beating = asyncio.create_task(beat())
    held.start()
    await held.until(lambda: len(held.out("out")) == 500)
    beating.cancel()
    assert len(set(at_beat)) > 3
    await held.runner.stop(1)


@pytest.mark.parametrize("keys", [["account"], [("account", "1", "2")], [7]])
async def test_keys_that_are_none_are_told_of_and_taken_for_unknown(keys: Any) -> None:
    async def handler(event: Event) -> AsyncIterator[Emit]:
        if number(event) == 0:
            await asyncio.sleep(0.3)
        yield Emit("out", None, number(event))

    held = partition(
        handler, older=wait_and_commit(wait=0.05), touches=lambda event: Touched.of(keys)
    )
    for name in range(3):
        held.log.append(f"k{name}", name)
    held.start()
    await held.until(lambda: held.out("out") == [0, 1, 2])
    assert any("touches=" in report for unit in held.units for report in unit.reports)
    await held.runner.stop(1)


async def test_a_thread_over_its_time_limit_is_told_of_and_its_event_is_tried_again_behind_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    let_go, calls = threading.Event(), []

    def handler(event: Event) -> list[Emit]:
        calls.append(number(event))
        let_go.wait(120)
        return [Emit("out", None, number(event))]

    held = partition(handler, time_limit=0.05)
    held.log.append("a", 0)
    held.start()
    await held.until(lambda: "its thread cannot be ended" in caplog.text)
    object.__setattr__(held.stage.work.rules, "time_limit", 600.0)
    let_go.set()
    await held.until(lambda: held.out("out") == [0])
    assert len(calls) > 1
    await held.runner.stop(1)


async def test_what_an_attempt_that_was_rolled_back_yields_wrongly_halts_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    calls: list[Any] = []
    let_go = threading.Event()

    def handler(event: Event) -> list[Any]:
        calls.append(number(event))
        if len(calls) > 1:
            return [Emit("out", None, number(event))]
        let_go.wait(120)
        return [7]

    held = partition(handler, time_limit=0.05, error=halt())
    held.log.append("a", 0)
    held.start()
    await held.until(lambda: "its thread cannot be ended" in caplog.text)
    object.__setattr__(held.stage.work.rules, "time_limit", 600.0)
    let_go.set()
    await held.until(lambda: held.out("out") == [0])
    assert not held.out("t.errors")
    await held.runner.stop(1)


async def test_a_stream_whose_old_run_ends_while_intake_pauses_goes_on() -> None:
    let_go, calls = threading.Event(), []

    def handler(event: Event) -> list[Emit]:
        calls.append(number(event))
        if len(calls) == 1:
            let_go.wait(120)
        return [Emit("out", None, number(event))]

    held = partition(handler, commit="stream")
    object.__setattr__(held.stage.work.rules, "max_events", 3)
    held.new_run()
    held.log.append("a", 0)
    held.start()
    await held.until(lambda: calls == [0])
    await held.runner.stop(0)
    for name in range(1, 6):
        held.log.append("a", name)
    held.new_run()
    held.start()
    await held.until(lambda: not held.runner.core.room)
    let_go.set()
    await held.until(lambda: held.out("out") == list(range(6)))
    await held.runner.stop(1)


async def test_retries_are_in_the_error_log_and_forgotten_with_their_event() -> None:
    tries = []

    async def handler(event: Event) -> AsyncIterator[Emit]:
        tries.append(0)
        if len(tries) < 6:
            raise ValueError("boom")
        yield Emit("out", None, number(event))

    held = partition(handler, error=retry(3, 0.01))
    held.log.append("a", 0)
    held.start()
    # Its output is there before the partition has taken that in.
    await held.until(lambda: held.runner.core.position == 1)
    assert held.out("out") == [0]
    done = [each["done"] for each in held.out("t.errors")]
    assert done == ["retry 1 of 3 in 0.01 s", "retry 2 of 3 in 0.02 s"]
    assert not held.runner.workers._settling.retried
    await held.runner.stop(1)


def _work(handler: Any, **options: Any) -> Partition:
    topology = Topology("t")
    source = topology.source("in", inspector=Inspector(stream=key(), sequence="n"), keyed=True)
    topology.view("work", of=source, workers=8, handler=handler, **options)
    return Partition(topology)


@pytest.mark.parametrize("kind", [ValueError, SystemExit, asyncio.CancelledError])
async def test_what_is_redriven_goes_on_until_one_fails_again_whatever_that_raises(
    kind: type[BaseException],
) -> None:
    async def handler(event: Event) -> list[Emit]:
        if not held.log.records[-1].headers:
            raise ValueError
        if event.sequence == 3:
            raise kind("boom")
        return [Emit("out", None, event.sequence)]

    held = _work(handler, error=park())
    for each in range(1, 5):
        held.log.append("a", {"n": each})
    held.start()
    await held.until(lambda: held.runner.core.position == 4)
    held.log.append("a", b"a", [(RELEASE, b"redrive")])
    await held.until(lambda: held.runner.core.position == 5)
    assert held.out("out") == [1, 2]
    assert [each["sequence"] for each in held.out("t.errors")] == [1, 3]
    await held.runner.stop(1)


async def test_messages_without_a_value_count_towards_what_is_staged_too() -> None:
    async def handler(event: Event) -> list[Emit]:
        await event.hurry.wait() if number(event) == 0 else None
        return [Emit("out", None, None)] * 10_000

    held = partition(handler)
    held.log.append("a", 0)
    held.log.append("b", 1)
    held.start()
    await held.until(lambda: held.runner.core._attempts.staged > 0)
    assert held.runner.core._attempts.staged >= 1_000_000
    await held.runner.stop(1)


async def test_the_time_limit_is_of_each_event_that_is_redriven(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    handled: list[int] = []
    clock = SimpleNamespace(
        monotonic=lambda: time.monotonic() + 30 * len(handled), perf_counter=time.perf_counter
    )
    for module in (ordered_runner, settling, workers):
        monkeypatch.setattr(module, "time", clock)

    async def handler(event: Event) -> list[Emit]:
        if not held.log.records[-1].headers:
            raise ValueError
        handled.append(event.sequence)
        await asyncio.sleep(0.06)
        return [Emit("out", None, event.sequence)]

    # By this clock, each takes half a minute, and all of them ten.
    held = _work(handler, error=park(), time_limit=90.0)
    for each in range(1, 21):
        held.log.append("a", {"n": each})
    held.start()
    await held.until(lambda: held.runner.core.position == 20)
    held.log.append("a", b"a", [(RELEASE, b"redrive")])
    await held.until(lambda: held.runner.core.position == 21)
    assert handled == held.out("out") == [*range(1, 21)]
    await held.runner.stop(1)


async def test_of_many_parked_events_a_unit_lets_some_go_and_the_rest_follows_in_order(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(workers, "RELEASED", 3)
    bad = True

    async def handler(event: Event) -> list[Emit]:
        if bad:
            raise ValueError
        return [Emit("out", None, event.sequence)]

    held = _work(handler, error=park())
    for each in range(1, 8):
        held.log.append("a", {"n": each})
    held.start()
    await held.until(lambda: held.runner.core.position == 7)
    bad = False
    held.log.append("a", b"a", [(RELEASE, b"unpark")])
    held.log.append("a", b"a", [(RELEASE, b"unpark")])  # by one who sees it parked still
    held.log.append("a", {"n": 8})
    again, behind = list[tuple[str, bytes]](), 10
    while held.runner.core.position < behind or len(held.out("out")) < 7:
        await held.until(lambda at=behind: held.runner.core.position == at)  # type: ignore[misc]
        told = [out for u in held.units for out in u.colocated.get("t.work.arrivals", ())]
        for _, value, _, headers in told[len(again) :]:
            assert (value, headers) == (b"a", [(RELEASE, b"redrive")])
            again += headers
            held.log.append("a", value, headers)
            behind += 1
    assert held.out("out") == [2, 3, 4, 5, 6, 7, 8]
    assert [each["n"] for each in held.out("t.dead")] == [1]
    assert again
    assert not list(held.table.scan(b"b", b"c"))
    await held.runner.stop(1)


async def parked_behind_its_first(
    monkeypatch: pytest.MonkeyPatch, let_go: asyncio.Event | None = None, **options: Any
) -> Partition:
    """Seven events of a stream are parked, of which the first fails each time; two go at once.

    Stream slow is held until it is let go.
    """
    monkeypatch.setattr(workers, "RELEASED", 2)

    async def handler(event: Event) -> list[Emit]:
        if event.stream == "a" and event.sequence == 1:
            raise ValueError
        if event.stream == "slow" and let_go is not None:
            await let_go.wait()
        return [Emit("out", None, event.sequence)]

    held = _work(handler, error=park(), **options)
    for each in range(1, 8):
        held.log.append("a", {"n": each})
    held.start()
    await held.until(lambda: held.runner.core.position == 7)
    return held


async def test_a_second_unpark_after_a_restart_buries_only_what_has_failed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    held = await parked_behind_its_first(monkeypatch)
    for position in (8, 9, 10, 11):
        held.log.append("a", b"a", [(RELEASE, b"unpark")])
        await held.until(lambda at=position: held.runner.core.position == at)  # type: ignore[misc]
        await held.runner.stop(1)
        held.new_run()
        held.start()
    assert [each["n"] for each in held.out("t.dead")] == [1]
    assert held.out("out") == [2, 3, 4, 5, 6, 7]
    assert not list(held.table.scan(b"b", b"h")), "nothing is noted of a stream that is let go"
    rows = [row for unit in held.units for each in unit.rows.values() for row in each]
    assert not any(foreign(*row) for row in rows)
    await held.runner.stop(1)


async def test_an_unpark_that_is_rolled_back_buries_what_has_failed_the_next_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    let_go, older = asyncio.Event(), wait_and_roll_back(wait=0.5)
    held = await parked_behind_its_first(monkeypatch, let_go, commit="arrival", older=older)
    failed = held.runner.core.counts.failed
    held.log.append("slow", {"n": 1})
    for _ in range(4):
        held.log.append("a", b"a", [(RELEASE, b"unpark")])
    await held.until(lambda: held.runner.core.counts.rolled_back >= 1)
    let_go.set()
    await held.until(lambda: held.runner.core.position == 12)
    assert [each["n"] for each in held.out("t.dead")] == [1]
    assert held.out("out") == [1, 2, 3, 4, 5, 6, 7]
    assert held.runner.core.counts.failed == failed
    await held.runner.stop(1)


@pytest.mark.parametrize("error", [advance(), park()])
async def test_a_closing_event_that_fails_leaves_its_state_to_nobody(error: Any) -> None:
    seen = []

    async def handler(event: Event, state: dict[str, Any]) -> None:
        seen.append((event.sequence, dict(state)))
        if event.kind == "Shipped":
            raise ValueError("boom")
        state["sum"] = state.get("sum", 0) + 1

    topology = Topology("t")
    source = topology.source("in", inspector=Inspector(key(), "n", "kind"), keyed=True)
    topology.view(
        "work", of=source, workers=4, handler=handler, error=error, closes="Shipped",
        retention=60, reopen="start", start=opened_by("Placed"),
    )  # fmt: skip
    held = Partition(topology)
    object.__setattr__(held.stage.work.rules, "backoff", 0.001)
    for sequence, kind in ((5, "Placed"), (6, "Shipped"), (8, "Placed"), (9, "Paid")):
        held.log.append("a", {"n": sequence, "kind": kind})
    if error == park():
        held.log.append("a", b"a", [(RELEASE, b"unpark")])
    held.start()
    await held.until(lambda: held.runner.core.position == len(held.log.records))
    await held.runner.stop(1)
    assert [each for each in seen if each[0] != 6] == [(5, {}), (8, {}), (9, {"sum": 1})]


async def test_a_redrive_that_is_over_its_time_limit_each_time_ends_and_can_be_given_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The fourth attempt had no limit and no end, and what was behind it waited."""
    does = "raises"

    async def handler(event: Event) -> list[Emit]:
        if event.stream == "a" and does == "raises":
            raise ValueError
        if event.stream == "a" and does == "hangs":
            await asyncio.sleep(600)
        return [Emit("out", None, event.stream)]

    held = _work(handler, error=park(), time_limit=90.0)
    object.__setattr__(held.stage.work.rules, "time_limit", 0.2)
    held.new_run()
    held.log.append("a", {"n": 1})
    held.start()
    await held.until(lambda: held.runner.core.position == 1)
    does = "hangs"
    held.log.append("a", b"a", [(RELEASE, b"redrive")])
    held.log.append("b", {"n": 1})
    await held.until(lambda: held.runner.core.position == 3)
    assert held.out("out") == ["b"]
    assert "a stream is not released: " in caplog.text
    does = "works"
    held.log.append("a", b"a", [(RELEASE, b"redrive")])
    await held.until(lambda: held.runner.core.position == 4)
    assert held.out("out") == ["b", "a"]
    await held.runner.stop(1)


@pytest.mark.parametrize(
    ("command", "malformed", "dead"),
    [(b"redrive", 2, 0), (b"unpark", 1, 1), (FORCED_DROP, 0, 2)],
)
async def test_what_is_no_event_any_more_is_released_too(
    command: bytes, malformed: int, dead: int
) -> None:
    """Its inspector has learned since it was parked; no command could end its stream's wait."""
    learned = False

    def inspector(message: Message) -> tuple[str, int, None, bytes | None]:
        if learned and message.value and b"poison" in message.value:
            raise Malformed("poison")
        return "a", message.offset + 1, None, message.value

    def handler(event: Event) -> list[Emit]:
        if not learned:
            raise ValueError("boom")
        return [Emit("out", None, event.sequence)]

    topology = Topology("t")
    source = topology.source("in", inspector=inspector, keyed=True)
    topology.view("work", of=source, workers=2, commit="stream", error=park(), handler=handler)
    held = Partition(topology)
    held.log.append("a", b"poison 1")
    held.log.append("a", b"poison 2")
    held.start()
    await held.until(lambda: held.runner.core.position == 2)
    learned = True
    held.log.append("a", b"a", [(RELEASE, command)])
    held.log.append("a", b"fine")
    await held.until(lambda: held.out("out") == [4])
    counted = [sum(len(u.keyed.get(t, ())) for u in held.units) for t in ("t.malformed", "t.dead")]
    assert counted == [malformed, dead]
    assert not list(held.table.scan(b"b", b"c"))
    await held.runner.stop(1)


async def test_a_parked_stream_that_begins_anew_keeps_all_its_events_in_order() -> None:
    fails = {("first", 2)}

    async def handler(event: Event) -> AsyncIterator[Emit]:
        if (event.content["run"], event.sequence) in fails:
            raise ValueError("boom")
        yield Emit("out", event.stream, [event.content["run"], event.sequence])

    held = _work(handler, commit="stream", error=park())
    for run in ("first", "second"):
        for sequence in (1, 2, 3):
            held.log.append("a", {"run": run, "n": sequence})
    held.start()
    await held.until(lambda: held.runner.core.position == 6)
    fails.clear()
    held.log.append("a", b"a", [(RELEASE, b"redrive")])
    await held.until(lambda: len(held.out("out")) == 6)
    assert held.out("out") == [[run, n] for run in ("first", "second") for n in (1, 2, 3)]
    await held.runner.stop(1)


async def test_what_is_parked_of_a_log_that_was_made_anew_replaces_nothing_of_before() -> None:
    failing = [True]

    async def handler(event: Event) -> AsyncIterator[Emit]:
        if failing:
            raise ValueError("boom")
        yield Emit("out", event.stream, event.content["run"])

    held = _work(handler, commit="stream", error=park())
    for n in range(1, 4):
        held.log.append("a", {"n": n, "run": f"first {n}"})
    held.start()
    await held.until(lambda: held.runner.core.position == 3)
    await held.runner.stop(1)
    held.log.records.clear()
    held.log.at = 0
    held.table.write([(HOLES, None)])
    held.new_run()
    for n in range(1, 4):
        held.log.append("a", {"n": n, "run": f"second {n}"})
    held.start()
    await held.until(lambda: held.runner.core.position == 3)
    failing.clear()
    held.log.append("a", b"a", [(RELEASE, b"redrive")])
    await held.until(lambda: len(held.out("out")) == 6)
    assert held.out("out") == [f"{run} {n}" for run in ("first", "second") for n in (1, 2, 3)]
    await held.runner.stop(1)


async def test_messages_without_an_end_are_not_collected_without_one() -> None:
    """By their bytes too: a worker whose memory runs out dies at each try."""
    yielded = 0

    async def handler(event: Event) -> AsyncIterator[Emit]:
        nonlocal yielded
        while True:
            yielded += 1
            yield Emit("out", str(yielded), b"x" * 900_000)

    held = _work(handler, error=advance())
    held.log.append("a", {"n": 1})
    held.start()
    await held.until(lambda: held.runner.core.position == 1)
    assert yielded < 50
    (error,) = held.out("t.errors")
    assert "bytes together" in error["error"]
    await held.runner.stop(1)


async def test_a_stream_that_is_dropped_leaves_no_state_and_nothing_parked(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def handler(event: Event, state: dict[str, Any]) -> AsyncIterator[Emit]:
        if event.content.get("fails"):
            raise ValueError("boom")
        state["n"] = state.get("n", 0) + 1
        yield Emit("out", event.stream, state["n"])

    held = _work(handler, commit="stream", error=park())
    held.log.append("a", {"n": 1})
    held.log.append("a", {"n": 2, "fails": True})
    held.log.append("a", {"n": 3})
    held.log.append("a", b"a", [(RELEASE, b"drop")])
    held.log.append("a", b"a", [(RELEASE, FORCED_DROP)])
    held.log.append("a", {"n": 1})
    held.start()
    await held.until(lambda: held.out("out") == [1, 1])
    assert [each["n"] for each in held.out("t.dead")] == [2, 3]
    assert "2 parked events would be lost" in caplog.text
    assert not list(held.table.scan(b"b", b"c"))
    held.log.append("a", b"a", [(RELEASE, b"drop")])
    await held.until(lambda: held.runner.core.position == 7)
    assert not list(held.table.scan(b"p", b"q"))
    await held.runner.stop(1)


async def test_read_stores_take_what_a_dropped_stream_begins_anew_with() -> None:
    async def handler(event: Event) -> list[Upsert]:
        return [Upsert("board", {"id": event.stream}, {"n": event.sequence})]

    held = _work(handler)
    held.log.append("a", {"n": 7})
    held.log.append("a", b"a", [(RELEASE, b"drop")])
    held.log.append("a", {"n": 1})
    held.start()
    await held.until(lambda: held.runner.core.position == 3)
    await held.runner.stop(1)
    held.new_run()
    held.log.append("b", {"n": 1})
    held.log.append("a", {"n": 2})
    held.start()
    await held.until(lambda: held.runner.core.position == 5)
    at = [(each["stream"], each.get("epoch"), each["sequence"]) for each in held.out("t.work")]
    assert at == [("a", None, 7), ("a", 1, 1), ("b", None, 1), ("a", 1, 2)]
    await held.runner.stop(1)


@pytest.mark.parametrize("at_least_once", [False, True])
async def test_without_a_transaction_the_rows_of_a_unit_fit_into_one_batch(
    at_least_once: bool,
) -> None:
    let_go = asyncio.Event()

    async def handler(event: Event, state: dict[str, Any]) -> list[Emit]:
        if event.sequence == 1:
            await let_go.wait()
        state["all"] = "x" * 100_000
        return []

    held = _work(handler, commit="arrival")
    if at_least_once:
        held.producer = object()
    held.new_run()
    for stream in range(20):
        held.log.append(f"s{stream}", {"n": 1 if stream == 0 else 2})
    held.start()
    await held.until(lambda: held.runner.core.counts.finished == 19)
    let_go.set()
    await held.until(lambda: held.runner.core.position == 20)
    sizes = [
        sum(len(key) + len(row or b"") for rows in unit.rows.values() for key, row in rows)
        for unit in held.units
    ]
    assert (max(sizes) < BATCH_BYTES) is at_least_once
    assert sum(sizes) > 2_000_000
    await held.runner.stop(1)


@pytest.mark.parametrize("value", [None, b"9" * 5000, b"9" * 30])
async def test_a_forged_time_of_arrival_is_not_believed(value: Any) -> None:
    async def handler(event: Event) -> AsyncIterator[Emit]:
        yield Emit("out", event.stream, event.arrived < 2**62)

    held = _work(handler)
    held.log.append("a", {"n": 1}, [(ARRIVED, value), (ORIGIN, b"in/0/0/0"), (ORIGIN_KEY, b"a")])
    held.start()
    await held.until(lambda: held.out("out") == [True])
    await held.runner.stop(1)


async def test_what_its_inspector_no_longer_knows_is_malformed_rather_than_gone() -> None:
    async def handler(event: Event) -> AsyncIterator[Emit]:
        yield Emit("out", event.stream, event.sequence)

    topology = Topology("t")
    source = topology.source("in", inspector=lambda message: None, keyed=True)
    topology.view("work", of=source, workers=2, handler=handler)
    held = Partition(topology)
    held.log.append("a", {"n": 1})
    held.start()
    await held.until(lambda: len(held.out("t.malformed")) == 1)
    await held.runner.stop(1)


async def test_messages_whose_key_is_no_text_are_bad_news() -> None:
    async def handler(event: Event) -> None:
        pass

    held = partition(handler)
    for name in "abc":
        held.log.append(name, name)
    for record in held.log.records[:2]:
        record.key = b"\xff"
    held.start()
    await held.until(lambda: held.runner.core.position == 3)
    assert len(held.out("t.malformed")) == 2
    status = decode_work_status(held.table.get(WORK))
    assert status.malformed == 2
    (trouble,) = StageTally("work", (WorkTally(0, 0, True, 0, 0, 0, status, "me", 0),)).troubles
    assert trouble.place == MALFORMED
    assert trouble.what == "2 messages are in the malformed topic, from partition 0"
    await held.runner.stop(1)
    assert held.new_run().status.status.malformed == 2


@pytest.mark.parametrize("again", [1, 10])
async def test_a_log_that_was_made_anew_while_it_was_read_is_read_from_its_beginning(
    again: int,
) -> None:
    async def handler(event: Event) -> AsyncIterator[Emit]:
        yield Emit("out", None, number(event))

    held = partition(handler)
    for name in range(5):
        held.log.append(f"k{name}", name)
    held.start()
    await held.until(lambda: held.runner.core.position == 5)
    held.log.records.clear()
    for name in range(again):
        held.log.append(f"k{name}", f"new {name}")
    held.log.at = 0
    with pytest.raises(ConnectionError):
        await held.until(lambda: False)
    row = held.table.get(HOLES)
    assert row is not None
    assert decode_holes(row)[0] == 0
    held.new_run()
    held.start()
    await held.until(lambda: len(held.out("out")) == 5 + again)
    await held.runner.stop(1)


@pytest.mark.parametrize(("committed", "begins"), [(2, 2), (7, 1)])
async def test_a_log_that_was_made_anew_while_nobody_read_is_begun_where_it_has_something(
    committed: int, begins: int
) -> None:
    held = _work(lambda event: None)
    held.table.write([(HOLES, encode_holes(7, OffsetRanges([(8, 9)])))])
    context: Any = SimpleNamespace(
        timings=None,
        running={},
        losses={TOPIC: {(2, False): 9}},
        grant_numbers=itertools.count(1),
        settings=SimpleNamespace(session_timeout=1),
    )
    opened = OrderedPartition(TOPIC, held.stage, context, lambda error: asyncio.sleep(0))
    core = opened._core(held.table, first=1, start=committed, end=3)
    assert core.position == begins
    assert not list(core.done)
    assert not context.losses, "these are other events"


async def test_what_retention_deletes_in_front_of_a_reader_is_counted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    gate = asyncio.Event()

    async def handler(event: Event) -> AsyncIterator[Emit]:
        await gate.wait()
        yield Emit("out", None, number(event))

    held = partition(handler)
    object.__setattr__(held.stage.work.rules, "max_events", 3)
    held.log.most = 3
    held.new_run()
    for name in range(12):
        held.log.append(f"k{name}", name)
    held.start()
    await held.until(lambda: not held.runner.core.room)
    del held.log.records[:7]
    gate.set()
    await held.until(lambda: held.runner.core.position == 12)
    assert sorted(held.out("out")) == [0, 1, 2, *range(7, 12)]
    assert held.runner.core.counts.lost == 4
    assert "4 offsets from 3 on were deleted by retention before they were read" in caplog.text
    # Markers and compaction leave gaps too, which are no loss.
    held.log.append("k", 12)
    held.log.records[-1].offset = 40
    await held.until(lambda: held.runner.core.position == 41)
    assert held.runner.core.counts.lost == 4
    await held.runner.stop(1)


async def test_a_message_without_a_key_leaves_no_state_and_shares_that_of_no_stream() -> None:
    async def handler(event: Event, state: dict[str, Any]) -> AsyncIterator[Emit]:
        state["seen"] = [*state.get("seen", ()), number(event)]
        yield Emit("out", None, state["seen"])

    held = partition(handler, workers=1)
    held.log.append("0/1", 0)
    held.log.append(None, 1)
    held.log.append("0/1", 2)
    held.start()
    await held.until(lambda: held.out("out") == [[0], [1], [0, 2]])
    assert [key for key, _ in held.table.scan(b"p", b"q")] == [b"p0/1"]
    await held.runner.stop(1)


async def test_a_partition_that_is_given_away_keeps_nothing_once_its_attempts_have_ended() -> None:
    held = partition(lambda event: asyncio.sleep(0), workers=1)
    held.log.append("a", 0)
    held.start()
    await held.until(lambda: held.runner.core.position == 1)
    await held.runner.stop(1)
    assert not held.running
