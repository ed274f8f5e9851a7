"""Handlers in processes: killed and replaced, told to hurry, and gone when the worker is."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import orjson
import pytest

from tests.topology.faust.worker.ordered import in_processes
from tests.topology.faust.worker.ordered.in_memory import Partition
from tests.topology.faust.worker.ordered.in_processes import notes
from topology import DeclarationError, Emit, Event, Topology
from topology.declaration.environment import with_inspectors
from topology.declaration.ordered_stage import RELEASE
from topology.faust.worker.ordered.own_process import OwnProcess, ProcessNotStarted
from topology.handler_process import home_of

VERSIONS = f"{in_processes.__name__}:versions"
pytestmark = pytest.mark.integration


@pytest.fixture(autouse=True)
def noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(in_processes.NOTES, str(tmp_path / "notes"))


def has_ended(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


async def ends(process: int) -> None:
    """What was killed is gone: the system takes it out of the way by itself."""
    async with asyncio.timeout(150):
        while not has_ended(process):
            await asyncio.sleep(0.01)


async def run(held: Partition, out: list[object]) -> None:
    held.start()
    try:
        await held.until(lambda: held.out("out") == out)
    finally:
        await held.runner.stop(1)


async def test_effects_come_back_from_processes_as_they_were_yielded_and_in_order() -> None:
    held = Partition(in_processes.plain)
    for number in range(20):
        held.log.append(f"k{number}", number)
    await run(held, [*range(20)])
    raw = [each for unit in held.units for each in unit.keyed["out2"]]
    assert {each[:2] for each in raw} == {(b"\xfe", b"\x00\xff")}
    units = [each for unit in held.units for each in unit.keyed.get("out", [])]
    units += [each for unit in held.units for each in unit.colocated.get("out", [])]
    assert [each[3] for each in units] == [[("h", b"\xff")]] * 20
    assert str(os.getpid()) not in {line.split()[1] for line in notes()}
    assert len({line.split()[2] for line in notes()}) == 20
    assert all(line.split()[2].endswith(f"in/0/{line.split()[0]}") for line in notes())


async def test_an_attempt_over_its_time_limit_is_killed_and_another_process_takes_its_place() -> (
    None
):
    held = Partition(in_processes.plain)
    object.__setattr__(held.stage.work.rules, "time_limit", 1.0)
    try:
        held.new_run()
        held.log.append("a", "hangs")
        held.log.append("b", "late")
        held.log.append("c", 1)
        await run(held, ["hangs", "late", 1])
    finally:
        object.__setattr__(held.stage.work.rules, "time_limit", 60.0)
    hung = [line.split() for line in notes() if line.startswith("hangs")]
    assert len(hung) >= 2, "a slow machine's second attempt may be over its limit, too"
    assert hung[0][1] not in [each[1] for each in hung[1:]]
    assert {each[2] for each in hung} == {hung[0][2]}
    await ends(int(hung[0][1]))
    assert "late effects" not in notes()


async def test_what_a_handler_forks_answers_for_nobody() -> None:
    held = Partition(in_processes.plain)
    held.log.append("a", "forks")
    for number in range(6):
        held.log.append("a", number)
    await run(held, ["forks", *range(6)])


async def test_a_process_that_dies_is_noticed_and_takes_with_it_what_it_has_forked() -> None:
    held = Partition(in_processes.plain)
    held.log.append("a", "leaves")
    await run(held, ["leaves"])
    (child,) = [int(line.split()[1]) for line in notes() if line.startswith("child")]
    await ends(child)


async def test_a_process_that_dies_is_one_failed_attempt_and_the_worker_goes_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")
    held = Partition(in_processes.plain)
    held.log.append("a", "exits")
    held.log.append("b", "killed")
    held.log.append("c", 1)
    await run(held, ["exits", "killed", 1])
    assert held.runner.core.counts.failed == 2
    assert "the handler ended its process, with exit status 3" in caplog.text
    assert "was killed by SIGKILL; the system does that where memory runs out" in caplog.text


async def test_what_a_handler_raises_in_its_process_is_in_the_error_log_with_its_traceback() -> (
    None
):
    held = Partition(in_processes.plain)
    held.log.append("a", "raises")
    held.log.append("b", "nonsense")
    await run(held, [])
    held.new_run()
    held.start()
    await held.until(lambda: len(held.out("plain.errors")) == 2)
    await held.runner.stop(1)
    raised, yielded = held.out("plain.errors")
    assert raised["error"] == "HandlerFailed: ValueError: boom"
    assert 'raise ValueError("boom")' in raised["traceback"]
    assert "yielded a int" in yielded["error"]
    assert sum(line.startswith("nonsense") for line in notes()) == 1


async def test_a_handler_in_a_process_is_told_that_later_events_wait() -> None:
    held = Partition(in_processes.plain)
    held.log.append("a", "hurried")
    held.log.append("b", 1)
    await run(held, ["was hurried", 1])


async def test_the_state_of_a_stream_goes_to_its_process_and_comes_back() -> None:
    held = Partition(in_processes.orders)
    for number in range(1, 6):
        for stream in "ab":
            held.log.append(stream, {"n": number, "amount": number})
    held.start()
    await held.until(lambda: len(held.out("out")) == 10)
    await held.runner.stop(1)
    assert [each for each in held.out("out") if each[0] == "a"] == [
        ["a", 1, 1], ["a", 2, 3], ["a", 3, 6], ["a", 4, 10], ["a", 5, 15],
    ]  # fmt: skip
    changes = [each["changes"][0]["values"]["sum"] for each in held.out("orders.sums")]
    assert sorted(changes) == [1, 1, 3, 3, 6, 6, 10, 10, 15, 15]


async def test_a_process_asks_the_inspector_of_the_topology_that_runs() -> None:
    held = Partition(in_processes.versioned)
    for number in (1, 2):
        held.log.append("a", {"n": 100 + number, "version": number, "amount": number})
    await run(held, [["a", 1, 1], ["a", 2, 3]])


def test_a_topology_whose_inspectors_no_process_could_find_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = with_inspectors(in_processes.orders, {"SEQUITUR_INSPECTOR_IN": VERSIONS})
    with pytest.raises(DeclarationError, match="no name in a module"):
        home_of(found.stages[0].view)
    # The process has the environment, too.
    monkeypatch.setenv("SEQUITUR_INSPECTOR_IN", VERSIONS)
    assert home_of(found.stages[0].view) == f"{in_processes.__name__}:orders"


async def test_a_batch_of_many_streams_is_handled_in_a_process() -> None:
    held = Partition(in_processes.batched)
    for number in range(12):
        held.log.append(f"k{number % 3}", number)
    held.start()
    await held.until(lambda: len(held.out("out")) == 12)
    await held.runner.stop(1)
    for stream in ("k0", "k1", "k2"):
        assert [each[1] for each in held.out("out") if each[0] == stream] == [1, 2, 3, 4]


async def test_a_revoked_partition_leaves_no_process_behind() -> None:
    held = Partition(in_processes.forever)
    held.log.append("a", 0)
    held.log.append("b", 1)
    held.start()
    await held.until(lambda: len(notes()) == 2)
    await held.runner.stop(0)
    for each in notes():
        await ends(int(each))
    assert held.runner.core.still_running == ()


WORKER = """
import asyncio
from tests.topology.faust.worker.ordered import in_processes
from tests.topology.faust.worker.ordered.in_memory import Partition

async def main():
    held = Partition(in_processes.forever)
    held.log.append("a", 0)
    held.log.append("b", 1)
    held.start()
    await asyncio.sleep(600)

asyncio.run(main())
"""


def test_processes_end_when_the_worker_is_killed_and_do_not_heed_the_terminal() -> None:
    worker = subprocess.Popen([sys.executable, "-c", WORKER], start_new_session=True)
    try:
        until = time.monotonic() + 150
        while len(notes()) < 2:
            assert time.monotonic() < until, notes()
            time.sleep(0.02)
        children = [int(each) for each in notes()]
        for child in children:
            assert os.getpgid(child) != worker.pid, "a terminal's Ctrl-C would reach it"
            os.kill(child, signal.SIGINT)
        assert not any(map(has_ended, children))
        worker.kill()
        worker.wait()
        until = time.monotonic() + 150
        while not all(map(has_ended, children)):
            assert time.monotonic() < until, children
            time.sleep(0.02)
    finally:
        worker.kill()
        worker.wait()


async def test_a_process_that_cannot_import_the_view_is_no_events_failure() -> None:
    with pytest.raises(ProcessNotStarted, match=r"could not import no\.such:place.*ModuleNotFound"):
        await OwnProcess.started("no.such:place", "work")


async def test_a_process_that_was_killed_while_it_waited_is_replaced() -> None:
    process = await OwnProcess.started(home_of(in_processes.plain.stages[0].view), "work")
    os.kill(process._process.pid, signal.SIGKILL)
    async with asyncio.timeout(60):
        while process.alive:
            await asyncio.sleep(0.01)
    process.kill()


def test_what_another_process_cannot_import_is_refused_with_the_remedy() -> None:
    def inner(event: Event) -> list[Emit]:
        return []

    def script(event: Event) -> list[Emit]:
        return []

    script.__qualname__, script.__module__ = "script", "__main__"

    async def later(event: Event) -> list[Emit]:
        return []

    later.__qualname__ = "later"
    for handler, why in (
        (inner, "inside of a function.*define it with `def` in a module"),
        (lambda event: [], "lambda"),
        (script, "script that was started"),
        (later, "an async handler.*a plain function"),
    ):
        with pytest.raises(DeclarationError, match=why):
            Topology("t").parallel(
                "work", topic="in", workers=2, run_in="processes", handler=handler
            )
    with pytest.raises(DeclarationError, match="at most 128 processes"):
        Topology("t").parallel(
            "work", topic="in", workers=129, run_in="processes", handler=in_processes.work
        )
    homeless = Topology("homeless")
    homeless.parallel("work", topic="in", workers=2, run_in="processes", handler=in_processes.work)
    with pytest.raises(DeclarationError, match="no name in a module"):
        home_of(homeless.stages[0].view)
    assert orjson.dumps(home_of(in_processes.plain.stages[0].view))


async def test_what_is_redriven_in_a_process_leaves_its_state() -> None:
    held = Partition(in_processes.parks)
    for number in (1, 2, 3):
        held.log.append("a", {"n": number, "fails": number == 2})
    held.start()
    try:
        await held.until(lambda: held.runner.core.position == 3)
        in_processes.note("mended")
        held.log.append("a", b"a", [(RELEASE, b"redrive")])
        held.log.append("a", {"n": 4})
        await held.until(lambda: held.runner.core.position == 5)
        assert held.out("out") == [1, 3, 6, 10]
    finally:
        await held.runner.stop(1)
