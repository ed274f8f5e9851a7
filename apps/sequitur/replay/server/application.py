"""The replay log over HTTP, in JSON: /openapi.json says what there is.

Whatever changes something needs the token. Reading needs none where the server listens on loopback,
unless its file says so; then a request has to name loopback as its host, so that no page in a
browser reads by a name of its own.
"""

import asyncio
import hmac
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import orjson
from aiohttp import web
from aiokafka.errors import KafkaError
from pydantic import BaseModel, ValidationError
from sqlalchemy.exc import DataError, SQLAlchemyError

from sequitur.inbox.connections import LINE, Limits, bounded
from sequitur.replay.server.description import Route, openapi
from stores.db.urls import said
from stores.replay.errors import Busy, ReplayError, UnknownReplay, WrongState
from topology.model.errors import DeclarationError, first_of
from topology.model.printable import printable
from topology.monitoring.same_origin import same_origin

logger = logging.getLogger(__name__)
BODY_BYTES = 1 << 20
_OPEN = ("/health", "/openapi.json")
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def application(
    routes: Sequence[Route], token: str, *, open_reading: bool, limits: Limits | None = None
) -> web.Application:
    """The server's application.

    Args:
        routes: what it does.
        token: that requests have to bear.
        open_reading: whether those that change nothing need none.
        limits: of requests.
    """
    limits = limits or Limits()
    changing = {(each.method, each.path) for each in routes if each.changes}
    description = orjson.dumps(openapi(routes, open_reading))

    @web.middleware
    async def answered(request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            _authorise(request)
            return await handler(request)
        except web.HTTPException as error:
            return _problem(error.status, error.text or error.reason)
        except UnknownReplay as error:
            return _problem(404, str(error))
        except WrongState as error:
            return _problem(409, str(error))
        except Busy as error:
            return _problem(503, str(error))
        except (ReplayError, DeclarationError) as error:
            return _problem(400, str(error))
        except DataError:
            return _problem(400, "the database takes no such value: is there a NUL in a text?")
        except (SQLAlchemyError, KafkaError, TimeoutError) as error:
            logger.warning("%s %s: %s", request.method, printable(request.path), said(error))
            what = "Kafka" if isinstance(error, KafkaError) else "the database"
            return _problem(503, f"{what} cannot do it now ({type(error).__name__}); try again")
        except Exception:
            logger.exception(
                "%s %s: a fault of Sequitur's", request.method, printable(request.path)
            )
            return _problem(500, "a fault of Sequitur's; the server's log says more")

    def _authorise(request: web.Request) -> None:
        resource = request.match_info.route.resource
        path = "" if resource is None else resource.canonical
        given = request.headers.get("Authorization", "").encode("utf-8", "replace")
        if path in _OPEN or hmac.compare_digest(given, f"Bearer {token}".encode()):
            return
        if not open_reading or (request.method, path) in changing:
            raise web.HTTPUnauthorized(text="send the header Authorization: Bearer and the token")
        reason = same_origin(request.host, request.headers.get("Origin"), local=True)
        if reason is not None:
            raise web.HTTPForbidden(text=f"{reason}; send the token")

    def made(route: Route) -> Handler:
        async def handle(request: web.Request) -> web.StreamResponse:
            asked = None if route.asks is None else await _read(request, route.asks, limits.body)
            answer = await route.do(asked, request.match_info.get("id", ""))
            return _json(route.status, answer)

        return handle

    async def health(_: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def describe(_: web.Request) -> web.Response:
        return web.Response(body=description, content_type="application/json")

    app = web.Application(middlewares=[answered], client_max_size=BODY_BYTES)
    app.router.add_get("/health", health)
    app.router.add_get("/openapi.json", describe)
    for route in routes:
        app.router.add_route(route.method, route.path, made(route))
    return app


async def _read(request: web.Request, model: type[BaseModel], seconds: float) -> BaseModel:
    try:
        if request.method == "GET":
            return model.model_validate(dict(request.query))
        async with asyncio.timeout(seconds):
            body = await request.read()
        # Strictly: true is no number, nor is "1".
        return model.model_validate_json(body, strict=True)
    except TimeoutError:
        raise web.HTTPRequestTimeout(text="the body did not come") from None
    except (ConnectionError, web.RequestPayloadError):
        raise web.HTTPBadRequest(text="the body broke off, or is not encoded as it says") from None
    except ValidationError as error:
        raise ReplayError(first_of(error)) from None


def _json(status: int, answer: BaseModel) -> web.Response:
    text = answer.model_dump_json()
    return web.Response(status=status, text=text, content_type="application/json")


def _problem(status: int, reason: str) -> web.Response:
    response = web.json_response({"error": printable(reason, 1_000)}, status=status)
    if status == 408:
        response.force_close()
    return response


async def serve(
    routes: Sequence[Route],
    token: str,
    host: str,
    port: int,
    stopped: asyncio.Event,
    *,
    open_reading: bool,
    limits: Limits | None = None,
) -> None:
    """Serve until it is told to stop; requests in hand are finished."""
    limits = limits or Limits()
    runner = web.AppRunner(
        application(routes, token, open_reading=open_reading, limits=limits),
        access_log=None,
        shutdown_timeout=10,
        keepalive_timeout=limits.idle,
        max_line_size=LINE,
        max_field_size=LINE,
    )
    await runner.setup()
    server: Any = runner.server
    listening: asyncio.Server | None = None
    try:
        made = bounded(server, limits)
        listening = await asyncio.get_running_loop().create_server(made, host, port)
        await stopped.wait()
    finally:
        if listening is not None:
            listening.close()
        await runner.cleanup()
