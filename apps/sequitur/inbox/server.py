"""An inbox over HTTP: POST /messages takes a batch in, and its response acknowledges it.

The response names what is refused, which is to come again, and what is missing: the gaps of
streams, so that who sent can say what of it is void. GET /health answers without a token, and tells
nothing.
"""

import asyncio
import hmac
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import web
from sqlalchemy.exc import SQLAlchemyError

from sequitur.inbox.connections import LINE, Limits, bounded
from sequitur.relay.wire import BATCH, BATCH_LENGTH, decode
from stores.inbox import Inbox, ReceiveResult, gaps
from topology.model.printable import printable

logger = logging.getLogger(__name__)

BODY_BYTES = 32 << 20
GAPS = 100
"""That a response names, the oldest first; the next one to the same sender, those behind them."""

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
Received = Callable[[ReceiveResult, float], None]


def _nobody(result: ReceiveResult, seconds: float) -> None: ...


def application(
    inbox: Inbox, token: str, limits: Limits | None = None, noted: Received = _nobody
) -> web.Application:
    """The server's application. token: that a request has to bear. noted: is told what became of
    each batch, and how long it took."""
    limits = limits or Limits()
    reading = asyncio.Semaphore(limits.bodies)
    turns: dict[str | None, int] = {}
    """Address → how many gaps it was named of those that there are, where it was not all."""

    @web.middleware
    async def authorised(request: web.Request, handler: Handler) -> web.StreamResponse:
        given = request.headers.get("Authorization", "")
        if request.path != "/health" and not hmac.compare_digest(
            given.encode("utf-8", "replace"), f"Bearer {token}".encode()
        ):
            raise web.HTTPUnauthorized(text="send the header Authorization: Bearer and the token\n")
        return await handler(request)

    async def messages(request: web.Request) -> web.Response:
        batch = request.headers.get(BATCH)
        if batch is not None and len(batch) > BATCH_LENGTH:
            raise web.HTTPBadRequest(text=f"{BATCH}: at most {BATCH_LENGTH} characters\n")
        async with reading:
            try:
                async with asyncio.timeout(limits.body):
                    body = await request.read()
            except TimeoutError:
                raise _closing(web.HTTPRequestTimeout(text="the body did not come\n")) from None
            try:
                arrived = decode(body)
            except ValueError as error:
                raise web.HTTPBadRequest(text=f"{printable(error, 400)}\n") from None

            def work() -> tuple[ReceiveResult, Any]:
                received = inbox.receive(arrived)
                page = gaps(inbox, GAPS, turn := turns.pop(request.remote, 0))
                if len(page) == GAPS:
                    turns[request.remote] = turn + GAPS
                return received, page

            try:
                began = time.monotonic()
                received, missing = await asyncio.to_thread(work)
                noted(received, time.monotonic() - began)
            except SQLAlchemyError as error:
                reason = type(getattr(error, "orig", None) or error).__name__
                logger.warning("inbox %s: messages cannot be taken: %s", inbox.name, reason)
                raise web.HTTPServiceUnavailable(
                    text=f"the inbox's database cannot take them now ({reason})\n"
                ) from error
        refused = [[m.topic, m.stream, m.sequence] for m in received.refused]
        return web.json_response(
            {
                "batch": batch,
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


def _closing(error: web.HTTPException) -> web.HTTPException:
    error.force_close()
    return error


async def serve(
    inbox: Inbox,
    token: str,
    host: str,
    port: int,
    stopped: asyncio.Event,
    limits: Limits | None = None,
    noted: Received = _nobody,
) -> None:
    """Serve until it is told to stop; requests in hand are finished."""
    limits = limits or Limits()
    runner = web.AppRunner(
        application(inbox, token, limits, noted),
        access_log=None,
        shutdown_timeout=10,
        keepalive_timeout=limits.idle,
        lingering_time=min(10.0, limits.body),
        max_line_size=LINE,
        max_field_size=LINE,
    )
    await runner.setup()
    assert runner.server is not None
    listening: asyncio.Server | None = None
    try:
        # Not the runner's own site, which knows no limit.
        made = bounded(runner.server, limits)
        listening = await asyncio.get_running_loop().create_server(made, host, port)
        await stopped.wait()
    finally:
        if listening is not None:
            listening.close()
        await runner.cleanup()
