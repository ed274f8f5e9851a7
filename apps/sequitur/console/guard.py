"""The gate in front of all requests, websockets too: same origin, a login, and safe headers."""

from collections.abc import Awaitable, Callable, MutableMapping
from http.cookies import CookieError, SimpleCookie
from typing import Any

from starlette.requests import HTTPConnection
from starlette.responses import PlainTextResponse, RedirectResponse, Response

from sequitur.console.access import Access, Session
from topology.monitoring.same_origin import same_origin

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
ASGIApp = Callable[[Scope, Receive, Send], Awaitable[None]]

COOKIE = "sequitur_console"
# The library makes its scripts in the page. Nothing comes from, or goes to, another origin.
POLICY = (
    "default-src 'self' data:; script-src 'self' 'unsafe-inline' 'unsafe-eval'; "
    "style-src 'self' 'unsafe-inline'; connect-src 'self'; object-src 'none'; base-uri 'none'; "
    "form-action 'self'; frame-ancestors 'none'"
)
_HEADERS = [
    (b"content-security-policy", POLICY.encode()),
    (b"x-frame-options", b"DENY"),
    (b"x-content-type-options", b"nosniff"),
    # With "no-referrer", browsers name no origin for the console's own forms either.
    (b"referrer-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
]


def secret_of(cookies: str) -> str | None:
    """The secret in a header of cookies."""
    try:
        found = SimpleCookie(cookies).get(COOKIE)
    except CookieError:
        return None
    return None if found is None else found.value


def session_of(access: Access, environ: Any) -> Session | None:
    """The session of an ASGI scope, as it is now."""
    return access.session(secret_of(HTTPConnection(environ).headers.get("cookie", "")))


class Guard:
    """An ASGI application around another one."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app, self._access = app, access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse, or pass on."""
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        refusal = self._refusal(HTTPConnection(scope))
        if refusal is None:
            await self._app(scope, receive, _with_headers(send))
        elif scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.close", "code": 1008})
        else:
            await refusal(scope, receive, _with_headers(send))

    def _refusal(self, request: HTTPConnection) -> Response | None:
        headers, access = request.headers, self._access
        host, origin = headers.get("host", ""), headers.get("origin")
        if (reason := same_origin(host, origin, local=access.local)) is not None:
            return PlainTextResponse(f"refused: {reason}\n", 403)
        socket = request.scope["type"] == "websocket" or "/socket.io" in request.url.path
        if socket and origin is None and headers.get("sec-fetch-site") != "same-origin":
            return PlainTextResponse("refused: no browser, as it names no origin\n", 403)
        if access.local or request.url.path == "/login":
            return None
        if session_of(access, request.scope) is None:
            return RedirectResponse("/login", 303)
        return None


def _with_headers(send: Send) -> Send:
    async def sent(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            names = {name for name, _ in _HEADERS}
            kept = [each for each in message.get("headers", ()) if each[0].lower() not in names]
            message = {**message, "headers": [*kept, *_HEADERS]}
        await send(message)

    return sent
