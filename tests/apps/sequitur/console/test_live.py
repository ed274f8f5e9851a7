"""A part of a page that is looked at again: a broker that goes away is said, and it comes back."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka.errors import KafkaConnectionError
from nicegui import Client, core, ui
from nicegui.page import page

from sequitur.console.reader import SHARE, Reader
from sequitur.console.site import Site
from topology.diagnostics.side_topics import SideTally, side_record
from topology.faust.inspection.side_topics import SideTopic
from topology.model.event import Record
from topology.model.printable import printable


async def test_a_broker_that_goes_away_or_hangs_is_said_and_what_was_shown_stays(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answers: list[Any] = [["one"], KafkaConnectionError("<b>no</b>\u202e broker"), ["one"], ["two"]]
    shown, hangs = list[Any](), asyncio.Event()

    async def ask(*_: Any) -> Any:
        if not answers:
            hangs.set()
            await asyncio.sleep(600)
        found = answers.pop(0)
        if isinstance(found, Exception):
            raise found
        return found

    site: Any = SimpleNamespace(
        reader=SimpleNamespace(ask=ask), reason=lambda error: printable(error)
    )
    before, core.loop = core.loop, asyncio.get_running_loop()
    try:
        with Client(page("/"), request=None) as client:
            Site.live(site, "gaps", ask, lambda found, _: shown.append(found))
            (look,) = (each for each in client.elements.values() if isinstance(each, ui.timer))
            said = next(each for each in client.elements.values() if isinstance(each, ui.label))
            again: Any = look.callback
            seen = list[tuple[bool, str]]()
            for _ in range(4):
                await again()
                seen.append((said.visible, said.text))
            monkeypatch.setattr("sequitur.console.site.SLOW", 0.0)
            hung = asyncio.ensure_future(again())
            await hangs.wait()
            while not said.visible:
                await asyncio.sleep(0)
            assert said.text == "There is no answer yet: what is shown is older."
            hung.cancel()
    finally:
        core.loop = before
    assert [visible for visible, _ in seen] == [False, True, False, False]
    assert seen[1][1].startswith("Not known at the moment: ")
    assert "\u202e" not in seen[1][1]
    assert shown == [["one"], ["two"]], "what did not change is not made anew"


async def test_what_takes_long_to_find_is_asked_rarely_until_somebody_acts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sequitur.console.reader.keep_folds", lambda app: None)
    now, asked = [0.0], list[float]()
    app: Any = SimpleNamespace()

    async def question(_: Any) -> int:
        asked.append(now[0])
        now[0] += 10
        return len(asked)

    async def nothing(_: Any) -> None: ...

    async def meanwhile(_: Any) -> int:
        reader._acts += 1  # somebody acts
        return await question(_)

    with Reader(app, clock=lambda: now[0]) as reader:
        for wanted, seconds in ((1, 0), (1, 10 * SHARE - 1), (2, 2), (2, 1)):
            now[0] += seconds
            assert await reader.ask("gaps", question) == wanted
        await reader.act("ann", nothing)
        assert await reader.ask("gaps", question) == 3
        assert await reader.ask("other", meanwhile) == 4
        assert await reader.ask("other", question) == 5


async def test_a_client_that_ends_as_cancelled_is_a_trouble_and_no_end_of_the_page(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sequitur.console.reader.keep_folds", lambda app: None)
    app: Any = SimpleNamespace()

    async def cut_off(_: Any) -> None:
        raise asyncio.CancelledError

    with Reader(app) as reader, pytest.raises(ConnectionError, match="cut off"):
        await reader.ask("lateness", cut_off)


def test_many_failures_are_a_few_groups_and_a_page_of_them_is_small() -> None:
    tally = SideTally()
    record = Record("shop.errors", 0, 7, b"a", b'{"error": "ValueError: no 17"}', (), 5)
    found = side_record("errors", record)
    tally.add(found for _ in range(20_000))
    (group,) = tally.groups()
    assert (tally.count, group.count, tally.last) == (20_000, 20_000, [found])
    made = SideTopic("errors", 9, tally.count, tally.last, [group], [])
    assert len(str(made.as_dict())) < 1_000
