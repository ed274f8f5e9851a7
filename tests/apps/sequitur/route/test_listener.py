"""A listener carries out what it registered, once, and nothing that a message brings."""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka import TopicPartition
from sqlalchemy.exc import OperationalError

from sequitur.alerts.actions import Actions
from sequitur.route import listener
from sequitur.route.control import LOG, Control
from sequitur.route.listen_command import read_listener
from sequitur.route.listener import Listener
from stores.db.engines import open_engine
from stores.segments import PublishedIds
from topology import DeclarationError, Record
from topology.model.ending import end_tasks
from topology.routing import (
    ACTION,
    BROADCAST,
    ControlRecord,
    Endpoint,
    Failed,
    Joined,
    Left,
    Listening,
    Loaded,
    Propose,
    Register,
    encode_control,
)

FILE = """
name = "ear"
destination = "left"
[action.mark]
function = "marks:mark"
"""


def made(folder: Path) -> Listener:
    file = folder / "ear.toml"
    file.write_text(FILE)
    said = read_listener(file)
    engine = open_engine(f"sqlite:///{folder / 'done.db'}")
    return Listener(said.endpoint, "t", Control("c", {}), Actions(dict(said.action)), engine)


def record(headers: Sequence[tuple[str, bytes]]) -> Record:
    return Record("t", 0, 7, b"k", b"content", tuple(headers))


RULES = ("sequitur-rules", b"1")
SENT = [RULES, (BROADCAST, b"a/b/in/0/1"), (ACTION, b"mark")]


@pytest.fixture
def seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What the action was told, each time that it ran."""
    (tmp_path / "marks.py").write_text("import builtins\ndef mark(told):\n    SEEN.append(told)\n")
    monkeypatch.syspath_prepend(tmp_path)
    told: list[Any] = []
    import marks  # type: ignore[import-not-found]

    monkeypatch.setattr(marks, "SEEN", told, raising=False)
    return told


async def test_an_action_runs_once_for_a_broadcast_also_after_a_restart(
    tmp_path: Path, seen: list[Any]
) -> None:
    for _ in range(2):
        listener = made(tmp_path)
        await listener._take(record(SENT))
        await listener._take(record([(ACTION, b"mark"), *SENT[:2]]))  # forged
        await listener._take(record([*SENT[1:], RULES]))  # a routed message that was one
        await listener._take(record([*SENT[:2], (ACTION, b"rm -rf /")]))
    assert listener.counts == {"repeated": 1, "unknown": 1}
    (told,) = seen
    assert (told["broadcast"], told["value"], told["offset"]) == ("a/b/in/0/1", "content", 7)


@pytest.mark.parametrize("own", ["most = 1", 'each = "1h"'])
def test_an_action_of_a_listener_has_no_limit_that_it_would_not_keep(
    own: str, tmp_path: Path, seen: list[Any]
) -> None:
    file = tmp_path / "ear.toml"
    file.write_text(f"{FILE}{own}\n")
    with pytest.raises(DeclarationError, match=r"action\.mark: most and each are of alerts"):
        read_listener(file)


class OneBroadcast:
    """A consumer that reads a broadcast, whatever others have read before it, and commits."""

    def __init__(self, committed: Callable[[], None]) -> None:
        self.committed, self.left = committed, [record(SENT)]

    async def start(self) -> None: ...

    async def stop(self) -> None: ...

    async def getmany(self, timeout_ms: int) -> dict[TopicPartition, list[Any]]:
        found, self.left = self.left, []
        return {TopicPartition("t", 0): found} if found else {}

    async def commit(self) -> None:
        self.committed()


@pytest.mark.parametrize("step", ["among", "note"])
async def test_a_database_that_is_away_is_waited_for_and_the_action_runs_once(
    step: str, tmp_path: Path, seen: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped, done, left = asyncio.Event(), getattr(PublishedIds, step), [1]

    def away_once(*given: Any) -> Any:
        if left:
            left.pop()
            raise OperationalError("SELECT", {}, Exception("database is locked"))
        return done(*given)

    async def silent(_: asyncio.Event) -> None:
        """It says to nobody that it lives."""

    made_one = made(tmp_path)
    monkeypatch.setattr(PublishedIds, step, away_once)
    monkeypatch.setattr(made_one, "_live_again", silent)
    monkeypatch.setattr(listener, "AGAIN", 0.0)
    monkeypatch.setattr(listener, "AIOKafkaConsumer", lambda *_, **__: OneBroadcast(stopped.set))
    await asyncio.wait_for(made_one.run(stopped), 60)
    assert (len(seen), left, made_one.counts) == (1, [], {"done": 1})
    assert made_one._ids.among(["a/b/in/0/1 mark"])
    assert not made_one._unnoted


@pytest.mark.parametrize(
    "wrong",
    [
        FILE.replace("marks:mark", "no_such_module:f"),
        FILE.replace("function", "shell"),
        FILE.replace("mark]", '"a b"]'),
        'destination = "left"',
    ],
)
def test_a_file_that_means_nothing_is_refused(wrong: str, tmp_path: Path) -> None:
    file = tmp_path / "ear.toml"
    file.write_text(wrong)
    with pytest.raises(DeclarationError):
        read_listener(file)


class ControlTopic:
    """A control topic with these records, made so often."""

    def __init__(self, records: list[bytes]) -> None:
        self.records, self.made, self.registered = records, 1, 0


class FakeConsumer:
    def __init__(self, topic: ControlTopic) -> None:
        self.topic, self.at, self.made = topic, 0, topic.made

    async def start(self) -> None: ...

    async def stop(self) -> None: ...

    def assign(self, _: Any) -> None: ...

    async def seek_to_beginning(self, _: Any) -> None: ...

    async def end_offsets(self, places: list[Any]) -> dict[Any, int]:
        return dict.fromkeys(places, len(self.topic.records))

    async def getmany(self, timeout_ms: int) -> dict[TopicPartition, list[Any]]:
        await asyncio.sleep(0.001)
        if self.made != self.topic.made:  # where it was is nothing: it begins at the first one
            self.at, self.made = 0, self.topic.made
        found = [
            SimpleNamespace(partition=LOG, offset=offset, key=None, value=value)
            for offset, value in enumerate(self.topic.records)
        ][self.at :]
        self.at = len(self.topic.records)
        return {TopicPartition("c", LOG): found}


class FakeProducer:
    def __init__(self, topic: ControlTopic) -> None:
        self.topic = topic

    async def start(self) -> None: ...

    async def stop(self) -> None: ...

    async def send_and_wait(self, _: str, value: bytes, key: bytes, partition: int) -> None:
        if partition == LOG:
            self.topic.records.append(value)
            self.topic.registered += 1


def control_topic(monkeypatch: pytest.MonkeyPatch, *records: ControlRecord) -> ControlTopic:
    topic = ControlTopic([encode_control(each) for each in records])
    monkeypatch.setattr(listener, "AIOKafkaConsumer", lambda **_: FakeConsumer(topic))
    monkeypatch.setattr(listener, "AIOKafkaProducer", lambda **_: FakeProducer(topic))
    monkeypatch.setattr(listener, "AGAIN", 0.0)
    return topic


async def test_a_listener_registers_again_where_the_control_topic_is_made_anew_and_shorter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = control_topic(monkeypatch, *[Left("somebody")] * 9)
    living = asyncio.create_task(made(tmp_path)._live_again(asyncio.Event()))
    try:
        async with asyncio.timeout(60):
            while not topic.registered:
                await asyncio.sleep(0.001)
            topic.records, topic.made = [encode_control(Left("somebody"))], 2
            while topic.registered < 2:
                await asyncio.sleep(0.001)
    finally:
        await end_tasks(living)


@pytest.mark.parametrize("decided", [False, True])
async def test_a_listener_outlives_a_refusal_that_gives_its_place_back_to_an_earlier_session(
    decided: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, own, third = (
        Register(Endpoint("ear", "left", None, Listening(1.0, session)))
        for session in ("old", "own", "third")
    )
    topic = control_topic(
        monkeypatch, Joined("p"), Propose(), Register(old.endpoint), Loaded("p", 2, "d")
    )
    engine = open_engine(f"sqlite:///{tmp_path / 'done.db'}")
    one = Listener(own.endpoint, "t", Control("c", {}), Actions({}), engine)
    stopped = asyncio.Event()
    living = asyncio.create_task(one._live_again(stopped))
    try:
        async with asyncio.timeout(60):
            while not one._seen:
                await asyncio.sleep(0.001)
            if decided:  # then its place is its own
                topic.records += [encode_control(Loaded("p", 3, "d")), encode_control(old)]
            else:
                topic.records.append(encode_control(Failed("p", 3, "the database is away")))
                topic.made = 2  # it reads all of that again, which changes nothing
                while topic.registered < 2:
                    await asyncio.sleep(0.001)
                assert not stopped.is_set()
                topic.records.append(encode_control(third))
            await stopped.wait()
        assert one._replaced
    finally:
        await end_tasks(living)
