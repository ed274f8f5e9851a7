"""Pages: figures of now, probes that tell, and what does not answer holds up nobody."""

import asyncio
import json
import threading
from collections.abc import Iterator
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest
from prometheus_client.core import Metric

from topology.monitoring import Pages, Question, single
from topology.monitoring import pages as pages_of


class OnePart(Pages):
    """A process of one part, which can be stopped."""

    def __init__(self) -> None:
        super().__init__()
        self.stuck: list[str] = []
        self.value = 1.0

    def collect(self) -> Iterator[Metric]:
        yield single("part_value", "Of the part.", self.value)

    async def troubles(self) -> list[str]:
        return self.stuck


class SlowPart(OnePart):
    """One whose troubles are not known for a while."""

    answer: threading.Event

    async def troubles(self) -> list[str]:
        await asyncio.to_thread(self.answer.wait, 60)
        return ["it was slow"]


def asked(pages: Pages, path: str) -> tuple[int, str]:
    """Status and body of a page."""
    try:
        with urlopen(f"http://{pages.address}{path}", timeout=60) as found:
            return found.status, found.read().decode()
    except HTTPError as error:
        return error.code, error.read().decode()


def test_pages_tell_what_is_so_when_they_are_asked() -> None:
    pages = OnePart()
    with pages.in_thread("127.0.0.1:0"):
        assert "part_value 1.0" in asked(pages, "/metrics")[1]
        pages.value = 2
        assert "part_value 2.0" in asked(pages, "/metrics")[1]
        assert asked(pages, "/ready") == (200, '{"ready": true, "troubles": []}')
        pages.stuck = ["the part is stuck"]
        status, body = asked(pages, "/ready")
        assert (status, json.loads(body)["troubles"]) == (503, ["the part is stuck"])
        status, body = asked(pages, "/health")
        assert (status, json.loads(body)["troubles"]) == (200, ["the part is stuck"])
        with pytest.raises(OSError, match="in use"), OnePart().in_thread(pages.address):
            pass


def test_a_look_that_takes_long_does_not_hold_up_the_probe(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Kubelet would kill every worker where the broker is away for a while."""
    monkeypatch.setattr(pages_of, "HEALTH", 0.01)
    pages, answer = SlowPart(), threading.Event()
    pages.answer = answer
    with pages.in_thread("127.0.0.1:0"):
        before = asked(pages, "/health")
        assert before == (200, '{"alive": true, "troubles": []}')
        answer.set()
        while "it was slow" not in asked(pages, "/health")[1]:
            pass


async def test_what_hangs_is_asked_once_and_holds_up_nobody() -> None:
    asking, answer = list[int](), threading.Event()

    def ask() -> int:
        asking.append(1)
        answer.wait(60)
        return 7

    question = Question(lambda: asyncio.to_thread(ask), patience=0.01)
    assert [await question() for _ in range(20)] == [False] * 20
    assert len(asking) == 1
    answer.set()
    async with asyncio.timeout(120):
        while not await question():
            await asyncio.sleep(0.01)
    assert question.answer == 7


async def test_what_raises_is_no_answer() -> None:
    async def ask() -> None:
        raise OSError("away")

    assert not await Question(ask)()
