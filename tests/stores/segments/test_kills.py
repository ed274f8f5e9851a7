"""Consumer and publisher are processes, and are killed again and again: every line comes once."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from stores.segments import OutboundBatch, OutboundMessage, Pair, Place
from stores.segments.transports.files import FileOutbound

pytestmark = pytest.mark.integration

LINES = 6_000
SCRIPT = """
import asyncio, sys
from stores.db.engines import open_engine
from stores.segments import *
from stores.segments.transports.files import FileInbound, FileOutbound

role, folder = sys.argv[1:]
ledger = SegmentLedger(open_engine(f"sqlite:///{folder}/ledger.db"), lease_seconds=0.3)
ledger.create()
store, failures = FileSegments(f"{folder}/segments"), ErrorsAfter("files")


def route(message):
    where = "even" if int(message.value) % 2 == 0 else "odd"
    return [OutboundMessage("files", where, message.value)]


if role == "consumer":
    inbound = FileInbound("lines", f"{folder}/lines")
    limits = BatchLimits(count=40, idle=0.001)
    intake = UnitIntake(inbound, route, failures, ["files"], limits=limits, site="site")
    work = SegmentConsumer(intake, ledger, store, segment_bytes=20_000).run(pause=0.02, retry=0.1)
else:
    outbound = FileOutbound(f"{folder}/out")
    pair, limits = Pair("lines", "files"), BatchLimits(count=30)
    work = Publisher(ledger, store, outbound, pair, failures, limits=limits).run(retry=0.1)
asyncio.run(work)
"""


def start(role: str, folder: Path) -> "subprocess.Popen[bytes]":
    return subprocess.Popen([sys.executable, "-c", SCRIPT, role, str(folder)])


def size(folder: Path) -> int:
    return sum(each.stat().st_size for each in (folder / "out").glob("*.lines"))


def test_every_line_comes_once_and_in_order_whoever_is_killed(tmp_path: Path) -> None:
    (tmp_path / "lines").write_text("".join(f"{n}\n" for n in range(LINES)))
    expected = len((tmp_path / "lines").read_bytes())
    chance = random.Random(15)
    running = {role: start(role, tmp_path) for role in ("consumer", "publisher")}
    kills, deadline = 0, time.monotonic() + 90
    try:
        while size(tmp_path) < expected:
            assert time.monotonic() < deadline, f"{size(tmp_path)} of {expected} bytes, {kills}"
            before = size(tmp_path)
            time.sleep(chance.uniform(0.01, 0.08))
            for role, process in running.items():
                assert process.poll() is None, f"the {role} ended by itself"
            # Only after some progress, so that it comes to an end however slow the machine is.
            if kills < 5 and before != size(tmp_path):
                role = chance.choice(sorted(running))
                os.kill(running[role].pid, signal.SIGKILL)
                running[role].wait()
                running[role], kills = start(role, tmp_path), kills + 1
    finally:
        for process in running.values():
            process.kill()
            process.wait()
    assert kills >= 3
    for name, rest in (("even", 0), ("odd", 1)):
        found = (tmp_path / "out" / f"{name}+lines.lines").read_text().split()
        assert found == [str(n) for n in range(rest, LINES, 2)]


async def test_a_batch_that_was_not_confirmed_is_cut_off(tmp_path: Path) -> None:
    pair = Pair("lines", "files")
    outbound = FileOutbound(tmp_path)
    assert await outbound.start(pair) is None
    batch = OutboundBatch(pair, (OutboundMessage("files", "a", b"1"),), Place(7, 10))
    await outbound.publish(batch)
    (tmp_path / "a+lines.lines").write_bytes(b"1\nhalf of what")
    (tmp_path / "b+lines.lines").write_bytes(b"of a new file")
    (tmp_path / "a+other.lines").write_bytes(b"of another topic")
    await outbound.stop()
    again = FileOutbound(tmp_path)
    assert await again.start(pair) == Place(7, 10)
    assert (tmp_path / "a+lines.lines").read_bytes() == b"1\n"
    assert (tmp_path / "b+lines.lines").read_bytes() == b""
    assert (tmp_path / "a+other.lines").read_bytes() == b"of another topic"
    with pytest.raises(ConnectionError):
        await FileOutbound(tmp_path).start(pair)
    await again.stop()
