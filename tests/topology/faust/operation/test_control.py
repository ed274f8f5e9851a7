"""What operators do on the command line, a program does by functions, called with the app."""

import asyncio
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from tests.topology.faust.operation.test_operator import APP, event
from tests.topology.faust.worker_process import Worker
from topology.faust import (
    CannotAnswer,
    audit,
    cancel,
    commands,
    drop,
    halt,
    redrive,
    redrive_dead,
    resume,
    skip,
    topics,
    unpark,
)

pytestmark = pytest.mark.integration


async def state_of(app: Any, command: str) -> str:
    (told,) = [each for each in (await commands(app)).found if each.id == command]
    return told.state


async def test_each_command_is_a_function_of_the_app(
    worker: Worker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mended = tmp_path / "mended"
    monkeypatch.setenv("PREFIX", worker.prefix)
    monkeypatch.setenv("MENDED", str(mended))
    monkeypatch.setenv("SEQUITUR_BROKER", worker.broker)
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, Any] = {}
    exec(APP, namespace)
    app = namespace["app"]
    assert {shape.state for shape in await topics(app)} == {"there", "missing"}
    assert {shape.state for shape in await topics(app, create=True)} == {"there"}

    worker.start(MENDED=str(mended))
    worker.send(event("a", 1), event("a", 2, "Bad"), event("a", 3), event("b", 2), event("c", 1))
    await asyncio.to_thread(worker.wait, "careful-out", 2)
    await asyncio.to_thread(worker.wait, "parked", 2)

    given_up = await skip(app, "b", 1, view="careful", dry_run=True)
    assert (given_up.done, given_up.facts["skipped"]) == (True, 1)
    assert (await skip(app, "b", 1, view="careful")).done
    assert not (await skip(app, "b", 1, view="careful")).done
    assert not (await redrive(app, "c", view="careful")).done
    assert "would fail" in (await redrive(app, "a", view="careful", dry_run=True)).message
    unparked = (await unpark(app, "a", view="careful")).facts
    assert (unparked["dead"], unparked["released"]) == (1, 1)
    await asyncio.to_thread(worker.wait, "dead", 1)
    assert (await redrive_dead(app, view="careful", older_than=3600)).found.chosen == []
    dead = await redrive_dead(app, view="careful", stream="a", dry_run=True)
    assert dead.as_dict()["events"] == 1

    assert (await halt(app, "careful")).done
    assert (await resume(app, "careful")).done
    assert (await drop(app, "c", view="careful")).done
    assert not (await audit(app, views=["careful"])).violations

    with pytest.raises(KeyError, match="careful"):
        await drop(app, "c", view="carefull")
    with pytest.raises(CannotAnswer, match="no command waits"):
        await cancel(app, "f00")
    assert worker.end(signal.SIGTERM) == 0
    with pytest.raises(CannotAnswer, match="take it back with `cancel"):
        await halt(app, "patient", seconds=1)
    (waits,) = [each for each in (await commands(app)).found if each.state == "waits"]
    with pytest.raises(CannotAnswer, match="does a worker run"):
        await cancel(app, waits.id[:10], seconds=1)

    worker.start(MENDED=str(mended))
    worker.send(event("d", 1))
    await asyncio.to_thread(worker.wait, "patient-out", 3)
    # Each of the two partitions answers; it waits for as long as it does in one of them.
    deadline = time.monotonic() + 60
    while (state := await state_of(app, waits.id)) == "waits" and time.monotonic() < deadline:
        await asyncio.sleep(0.2)
    assert state == "cancelled"
    assert worker.end(signal.SIGTERM) == 0
