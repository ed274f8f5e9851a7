"""What is no acknowledgement deletes nothing, and what answers is not followed or trusted."""

import asyncio
import gzip
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import orjson
import pytest
from aiohttp import web

from sequitur.cli.main import main
from sequitur.relay.acknowledgement import acknowledgement
from sequitur.relay.http_link import HttpLink
from sequitur.relay.link import Unavailable
from sequitur.relay.wire import BATCH, decode
from stores.message import Message
from tests.apps.sequitur.relay.parts import TOKEN, serving

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def message(n: int, stream: str = "a", content: bytes = b"{}") -> Message:
    return Message("orders", stream, n, None, content, id=n)


MESSAGES = [message(1), message(2), message(3)]


def answering(handler: Handler) -> AbstractAsyncContextManager[str]:
    app = web.Application(client_max_size=32 << 20)
    app.router.add_route("*", "/{any:.*}", handler)
    return serving(app)


def good(batch: str | None, **changed: Any) -> dict[str, Any]:
    counts = {"stored": 2, "duplicates": 1, "malformed": 0}
    return {"batch": batch, **counts, "refused": [], "missing": [], **changed}


async def send(url: str, acknowledged: float = 60.0) -> Any:
    link = HttpLink("orders", url, TOKEN, acknowledged=acknowledged)
    try:
        return await link.send(MESSAGES)
    finally:
        await link.close()


async def no_acknowledgement(
    response: Callable[[str | None], web.StreamResponse], why: str
) -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        return response(request.headers.get(BATCH))

    async with answering(handler) as url:
        with pytest.raises(Unavailable, match=why):
            await send(url)


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ({}, "not about this one"),
        ([], "no JSON object"),
        ({"status": "ok"}, "not about this one"),
        (None, "no JSON object"),
    ],
)
async def test_any_200_is_no_acknowledgement(body: Any, why: str) -> None:
    await no_acknowledgement(lambda _: web.json_response(body), why)


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"stored": 1}, "accounts for 2 messages of 3"),
        ({"stored": 3}, "accounts for 4 messages of 3"),
        ({"stored": -1, "duplicates": 4}, "no count"),
        ({"stored": True, "duplicates": 2}, "no count"),
        ({"stored": 2.0}, "no count"),
        ({"refused": None}, "no list"),
        ({"refused": [["orders", "a", 9]], "stored": 1}, "does not have"),
        ({"refused": [["orders", "a", 1]] * 2, "stored": 0}, "does not have"),
        ({"refused": [["orders", "a"]], "stored": 1}, "not named"),
        ({"missing": [["orders", "a", 1]]}, "not named"),
        ({"missing": [["orders", "a", 1, 2**63]]}, "no range"),
        ({"missing": [["orders", "a\0", 1, 2]]}, "NUL"),
        ({"missing": [["orders", "a", 1, 2]] * 2000}, "gaps"),
        ({"batch": None}, "not about this one"),
        ({"batch": "of another request"}, "not about this one"),
    ],
)
async def test_an_answer_that_does_not_add_up_is_no_acknowledgement(
    changed: dict[str, Any], why: str
) -> None:
    await no_acknowledgement(lambda batch: web.json_response({**good(batch), **changed}), why)


async def test_an_answer_that_adds_up_is_one() -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        refused = [["orders", "a", 3]]
        return web.json_response(good(request.headers[BATCH], stored=1, refused=refused))

    async with answering(handler) as url:
        sent = await send(url)
    assert [each.sequence for each in sent.refused] == [3]


async def test_an_answer_of_another_type_or_charset_is_no_acknowledgement() -> None:
    def html(batch: str | None) -> web.Response:
        return web.Response(body=orjson.dumps(good(batch)), content_type="text/html")

    def latin(batch: str | None) -> web.Response:
        return web.Response(
            body=orjson.dumps(good(batch)), content_type="application/json", charset="utf-16"
        )

    await no_acknowledgement(html, "not JSON in UTF-8")
    await no_acknowledgement(latin, "not JSON in UTF-8")


async def test_a_packed_answer_is_not_unpacked() -> None:
    def packed(batch: str | None) -> web.Response:
        body = gzip.compress(orjson.dumps(good(batch)))
        headers = {"Content-Encoding": "gzip"}
        return web.Response(body=body, headers=headers, content_type="application/json")

    await no_acknowledgement(packed, "packed")


async def test_a_redirect_is_not_followed_and_the_token_goes_nowhere_else() -> None:
    came: list[str] = []

    async def elsewhere(request: web.Request) -> web.StreamResponse:
        came.append(request.headers.get("Authorization", ""))
        return web.json_response(good(request.headers.get(BATCH)))

    async with answering(elsewhere) as other:
        for status in (301, 302, 303, 307, 308):

            async def redirect(_: web.Request, status: int = status) -> web.StreamResponse:
                return web.Response(status=status, headers={"Location": f"{other}/messages"})

            async with answering(redirect) as url:
                with pytest.raises(Unavailable, match="redirect"):
                    await send(url)
    assert came == []


async def test_a_body_without_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sequitur.relay.http_link.ANSWER_BYTES", 1 << 16)

    async def endless(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        while True:
            await response.write(b" " * 4096)

    async with answering(endless) as url:
        with pytest.raises(Unavailable, match="longer than"):
            await send(url)


async def test_an_answer_that_drips_is_given_up_in_time() -> None:
    async def dripping(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        while True:
            await response.write(b" ")
            await asyncio.sleep(0.01)

    async with answering(dripping) as url:
        with pytest.raises(Unavailable, match="TimeoutError"):
            await send(url, acknowledged=0.3)


async def test_what_the_inbox_cannot_read_holds_back_its_own_stream_alone() -> None:
    taken: list[str] = []

    async def handler(request: web.Request) -> web.StreamResponse:
        arrived = decode(await request.read())
        if any(each.content == b"?" for each in arrived):
            return web.Response(status=400, text="what is that")
        taken.extend(f"{each.stream}{each.sequence}" for each in arrived)
        return web.json_response(good(request.headers[BATCH], stored=len(arrived), duplicates=0))

    messages = [message(1), message(2, content=b"?"), message(3), message(1, "b"), message(2, "b")]
    async with answering(handler) as url:
        link = HttpLink("orders", url, TOKEN)
        sent = await link.send(messages)
        await link.close()
    assert taken == ["a1", "b1", "b2"]
    assert [each.sequence for each in sent.refused] == [2, 3]
    assert "400" in sent.reason


async def test_who_can_read_nothing_at_all_is_away() -> None:
    await no_acknowledgement(lambda _: web.Response(status=400, text="log in"), "no inbox")


def test_the_same_message_twice_in_a_batch_is_accounted_for_twice() -> None:
    """Two who miss it asked for it: a batch may have it twice."""
    body = orjson.dumps(good("b", stored=1, duplicates=1))
    assert acknowledgement(body, "b", [message(1), message(1)]).refused == frozenset()


NO_URLS = [
    "http://me:secret@[bad",
    "http://me:sec/secret@h:1",
    "ftp://me:secret@h",
    "http://me:secret@h:99999",
    "me:secret@h",
]


@pytest.mark.parametrize("url", [*NO_URLS, "localhost:7070", "http://h:port", "http://:7070"])
def test_a_relay_does_not_begin_with_a_url_that_is_none(
    url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """It was tried again for ever."""
    assert main(["relay", "http", "--database", "sqlite:///orders.sqlite", "--to", url]) == 2
    said = capsys.readouterr().err
    assert "'--to': write http://HOST:PORT" in said
    assert "secret" not in said


@pytest.mark.parametrize("url", NO_URLS)
async def test_a_url_that_is_none_is_told_without_its_password(url: str) -> None:
    with pytest.raises(Unavailable) as told:
        await send(url)
    assert "secret" not in str(told.value)
