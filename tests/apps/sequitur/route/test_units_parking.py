"""Units of work park what fails: listed, redriven and unparked by commands, over kill -9."""

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import orjson
import pytest

from sequitur.cli.main import main
from sequitur.route.loading import load_units
from stores.db.engines import open_engine
from stores.segments import DestinationDown, InboundMessage, SegmentConsumer
from stores.segments.parked_topic import ParkedTopic
from tests.apps.sequitur.route.test_units import TWO_PHASE, start
from topology.model.errors import DeclarationError

pytestmark = pytest.mark.integration
ROUTER = """
[router]
name = "shop"
site = "berlin"
[units]
ledger = "sqlite:///FOLDER/ledger.db"
errors = { transport = "disk", destination = "errors", attempts = 2, parks = true }
lease = 1.0
batch = { count = 10, idle = 0.002 }
[transport.disk]
kind = "files"
[source.lines]
place = "lines.txt"
module = "parking_keys:keys"
rules = ["all"]
[rule.all]
to = "out"
[destination.out]
"""
REFUSING = """
[destination.bad]
address = "a/b"
"""
KEYS = """
import json
from pathlib import Path

def keys(message):
    found = json.loads(message.value)
    if found["n"] in (7, 30) and Path(__file__).with_name(f"away{found['n']}").exists():
        raise ValueError("what it asks is away")
    return {"n": found["n"]}
"""


def test_what_fails_waits_in_order_until_it_is_let_go_whoever_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    router, lines = tmp_path / "router.toml", tmp_path / "lines.txt"
    router.write_text(ROUTER.replace("FOLDER", str(tmp_path)))
    (tmp_path / "parking_keys.py").write_text(KEYS)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=":")
    for away in ("away7", "away30"):
        (tmp_path / away).touch()
    sent: list[int] = []

    def send(count: int) -> None:
        with lines.open("ab") as file:
            for n in range(len(sent), len(sent) + count):
                file.write(orjson.dumps({"n": n}) + b"\n")
                sent.append(n)

    def came(destination: str = "out") -> list[int]:
        file = tmp_path / f"{destination}+lines.lines"
        found = file.read_bytes().splitlines() if file.exists() else []
        return [orjson.loads(line)["n"] for line in found]

    def wait_until(true: Callable[[], bool]) -> None:
        end = time.monotonic() + 120
        while not true():
            assert time.monotonic() < end, (came(), came("errors"))
            time.sleep(0.05)

    def said(*words: str) -> tuple[int, str]:
        status = main(["route", words[0], str(router), *words[1:]])
        return status, capsys.readouterr().out

    send(20)
    processes = [start("consume", router), start("publish", router)]
    try:
        wait_until(lambda: came() == [*range(7)] and "parked" in said("segments")[1])
        send(20)
        processes[0].kill()
        processes[0].wait()
        processes[0] = start("consume", router)
        wait_until(lambda: "33 waiting" in said("parked")[1])
        assert said("redrive", "-", "--wait", "10s")[0] == 1, "it fails again"
        assert "what it asks is away" in said("parked")[1]
        (tmp_path / "away7").unlink()
        assert said("redrive", "--all", "--reason", "it is back")[0] == 1, "another one fails"
        wait_until(lambda: came() == [*range(30)])
        send(5)
        assert said("unpark", "-")[0] == 0
        wait_until(lambda: came() == [n for n in sent if n != 30])
        assert came("errors") == [30]
        assert said("parked")[0] == 0
        wait_until(lambda: said("segments")[0] == 0)
    finally:
        for process in processes:
            process.kill()
            process.wait()


def test_what_a_destination_refuses_is_listed_and_let_go_by_the_same_commands(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = ROUTER.replace("FOLDER", str(tmp_path)).replace('module = "parking_keys:keys"', "")
    router = tmp_path / "router.toml"
    router.write_text(text.replace('to = "out"', 'to = ["bad", "out"]') + REFUSING)
    (tmp_path / "lines.txt").write_bytes(b'{"n": 0}\n{"n": 1}\n')
    units = load_units(router)
    consumer = units.consumers("disk", "test")["lines"]
    publisher = units.publishers("disk", "test")["lines"]

    async def run(consuming: int) -> None:
        """Until START is at END of the only pair, and nothing is left to retry."""
        for _ in range(consuming):
            await consumer.step(0)
        while units.ledger.chain(publisher.pair).backlog:
            with suppress(DestinationDown):  # it is refused, and tried again
                await publisher.step()

    def said(*words: str) -> tuple[int, str]:
        status = main(["route", words[0], str(router), *words[1:]])
        return status, capsys.readouterr().out

    with asyncio.Runner() as runner:
        runner.run(run(1))
        assert len((tmp_path / "out+lines.lines").read_bytes().splitlines()) == 2
        status, listed = said("parked")
        assert status == 1
        assert "lines → disk" in listed
        assert "a/b-" in listed
        assert "no name of a file" in listed
        assert "1 parked stream, with 2 messages" in said("segments")[1]
        assert said("unpark", "a/b-", "--wait", "1ms")[0] == 1, "it is not done yet"
        assert isinstance(consumer, SegmentConsumer)
        assert consumer._released is not None
        consumer._released._asked = None  # it asks once a second
        runner.run(run(1))
        assert "1 parked stream, with 1 message" in said("segments")[1]
        assert said("parked")[1].count("no name of a file") == 1, "the next one is refused, too"
        failed = (tmp_path / "errors+lines.lines").read_bytes().splitlines()
        assert [orjson.loads(each)["n"] for each in failed] == [0]
        runner.run(consumer.stop())
        runner.run(publisher.stop())
    units.engine.dispose()


def test_what_is_parked_is_let_go_before_there_are_no_segments(tmp_path: Path) -> None:
    path = tmp_path / "router.toml"
    path.write_text(TWO_PHASE.replace("FOLDER", str(tmp_path)))
    topic = ParkedTopic(load_units(path).parking, "placed")
    topic.start()
    assert topic.park(InboundMessage("placed", 0, 0, 1, b"{}", stream="s", sequence=1), "why")
    with open_engine(f"sqlite:///{tmp_path}/shop.db").begin() as connection:
        topic.note(connection)
    with pytest.raises(DeclarationError, match="let route redrive end them"):
        load_units(path)


def test_parking_needs_segments(tmp_path: Path) -> None:
    text = ROUTER.replace("FOLDER", str(tmp_path)).replace("lease = 1.0", "two_phase = true")
    (tmp_path / "router.toml").write_text(text.replace("parking_keys:keys", "json:loads"))
    with pytest.raises(DeclarationError, match="parks needs segments"):
        load_units(tmp_path / "router.toml")
