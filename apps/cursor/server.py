"""A cursor over HTTP: POST /messages takes a batch in, and its response acknowledges it.

The response names what is refused, which is to come again, and what is missing: the gaps of
streams, so that who sent can say what of it is void. GET /health answers without a token, and tells
nothing.
"""

import asyncio
import hmac
from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import web
from sqlalchemy.exc import SQLAlchemyError

from apps.relay.wire import decode
from stores.cursor import Cursor
from stores.cursor_commands import gaps
from stores.cursor_message import Received

BODY_BYTES = 32 << 20
MESSAGES = 10_000
"""Of one request, void ones included."""
GAPS = 100
"""That a response names, the oldest first."""

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def application(cursor: Cursor, token: str) -> web.Application:
    """The server's application. token: that a request has to bear."""

    @web.middleware
    async def authorised(request: web.Request, handler: Handler) -> web.StreamResponse:
        given = request.headers.get("Authorization", "")
        if request.path != "/health" and not hmac.compare_digest(
            given.encode("utf-8", "replace"), f"Bearer {token}".encode()
        ):
            raise web.HTTPUnauthorized(text="send the header Authorization: Bearer and the token\n")
        return await handler(request)

    async def messages(request: web.Request) -> web.Response:
        try:
            arrived = decode(await request.read())
        except ValueError as error:
            raise web.HTTPBadRequest(text=f"{error}\n") from None
        if len(arrived) > MESSAGES:
            raise web.HTTPBadRequest(text=f"{len(arrived)} messages; {MESSAGES} are the limit\n")

        def work() -> tuple[Received, Any]:
            return cursor.receive(arrived), gaps(cursor, GAPS)

        try:
            received, missing = await asyncio.to_thread(work)
        except SQLAlchemyError as error:
            reason = type(getattr(error, "orig", None) or error).__name__
            raise web.HTTPServiceUnavailable(
                text=f"the cursor's database cannot take them now ({reason})\n"
            ) from error
        refused = [[m.topic, m.stream, m.sequence] for m in received.refused]
        return web.json_response(
            {
                "stored": received.stored,
                "duplicates": received.duplicates,
                "malformed": received.malformed,
                "refused": refused,
                "missing": [[gap.topic, gap.stream, gap.first, gap.last] for gap in missing],
            }
        )

    async def health(_: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    app = web.Application(middlewares=[authorised], client_max_size=BODY_BYTES)
    app.router.add_post("/messages", messages)
    app.router.add_get("/health", health)
    return app


async def serve(cursor: Cursor, token: str, host: str, port: int, stopped: asyncio.Event) -> None:
    """Serve until it is told to stop; requests in hand are finished."""
    runner = web.AppRunner(application(cursor, token), access_log=None, shutdown_timeout=10)
    await runner.setup()
    try:
        site = web.TCPSite(runner, host, port)
        await site.start()
        await stopped.wait()
    finally:
        await runner.cleanup()
