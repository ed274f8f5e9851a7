"""What others may try: forged origins and hosts, a wrong token, a page in a frame."""

import asyncio
import http.client
from contextlib import closing
from urllib.parse import urlencode, urlsplit

import aiohttp
import pytest

from tests.apps.sequitur.console.conftest import TOKEN, Operated

pytestmark = pytest.mark.integration


def asked(
    operated: Operated, method: str, path: str, body: str = "", **headers: str
) -> http.client.HTTPResponse:
    with closing(http.client.HTTPConnection(urlsplit(operated.url).netloc, timeout=120)) as to:
        to.request(method, path, body, headers)
        answer = to.getresponse()
        answer.read()
        return answer


@pytest.mark.parametrize("headers", [{"Origin": "http://evil.example"}, {"Origin": "null"},
                                     {"Host": "evil.example"}])  # fmt: skip
@pytest.mark.parametrize(
    "path", ["/", "/login", "/view?name=mail", "/audit", "/replay", "/_nicegui_ws/socket.io/"]
)
def test_pages_of_others_get_nothing(
    operated: Operated, path: str, headers: dict[str, str]
) -> None:
    assert asked(operated, "GET", path, **headers).status == 403
    form = urlencode({"token": TOKEN, "who": "eve"})
    answer = asked(operated, "POST", path, form, **headers)
    assert answer.status == 403
    assert answer.getheader("set-cookie") is None


def test_a_websocket_of_another_page_is_closed(operated: Operated) -> None:
    place = f"{operated.url}/_nicegui_ws/socket.io/?EIO=4&transport=websocket"

    async def status(**headers: str) -> int:
        async with aiohttp.ClientSession() as client:
            try:
                async with client.ws_connect(place, headers=headers):
                    return 101
            except aiohttp.WSServerHandshakeError as error:
                return error.status

    assert asyncio.run(status(Origin=operated.url)) == 101
    assert asyncio.run(status(Origin="http://evil.example")) == 403
    assert asyncio.run(status(Origin="http://evil.example", Host="evil.example")) == 403
    assert asyncio.run(status()) == 403


def test_only_the_token_gives_a_cookie_that_scripts_and_other_sites_do_not_get(
    operated: Operated,
) -> None:
    for token in ("", "a-token-of-the-testS", TOKEN + "x", TOKEN * 1000):
        answer = asked(operated, "POST", "/login", urlencode({"token": token, "who": "eve"}))
        assert (answer.status, answer.getheader("set-cookie")) == (403, None)
    answer = asked(operated, "POST", "/login", urlencode({"token": TOKEN, "who": "ann"}))
    cookie = (answer.getheader("set-cookie") or "").lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert TOKEN not in cookie


def test_pages_cannot_be_framed_and_load_nothing_from_elsewhere(operated: Operated) -> None:
    policy = asked(operated, "GET", "/").getheader("content-security-policy") or ""
    assert "frame-ancestors 'none'" in policy
    assert "default-src 'self'" in policy
    assert "http" not in policy
