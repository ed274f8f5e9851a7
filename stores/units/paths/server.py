"""The path service's process: it leads the destinations that its consumer group assigns to it."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict
from typing import Any

import orjson
from aiohttp import web

from stores.units.errors import UnitError
from stores.units.kafka.topics import prepare, prepare_paths
from stores.units.naming import checked_name
from stores.units.paths.leader import PathLeader
from stores.units.paths.leading import Candidate
from stores.units.paths.settings import PathSettings
from stores.units.routing import PathMap
from stores.units.wire import SESSION_LENGTH, FrameError, authorised, number, text
from topology.model.printable import printable

logger = logging.getLogger(__name__)

ASKED = 1_000
"""Units that one question may name."""


class PathServer:
    """Serves paths. Of several processes one leads each destination, the others stand by.

    Args:
        settings: what it goes by.
    """

    def __init__(self, settings: PathSettings) -> None:
        self.settings = settings
        self.ready = asyncio.Event()
        """Set once it listens."""
        self.url = ""
        self._leaders: dict[str, PathLeader] = {}

    async def run(self, stopped: asyncio.Event) -> None:
        """Serve until it is told to stop.

        Args:
            stopped: tells it to stop.

        Raises:
            UnitError: a destination does not exist, or has messages that were routed by hash.
            KafkaError: Kafka cannot be reached.
            OSError: it cannot listen there.
        """
        settings = self.settings
        for destination in settings.destinations:
            await prepare(settings.kafka, destination)
            await prepare_paths(settings.kafka, destination)
        app = web.Application(middlewares=[self._authorise], client_max_size=1 << 20)
        app.router.add_post("/paths/{destination}", self._renew)
        app.router.add_get("/paths/{destination}", self._list)
        app.router.add_post("/paths/{destination}/move", self._move)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=1)
        await runner.setup()
        try:
            await web.TCPSite(runner, settings.host, settings.port).start()
            port = runner.addresses[0][1]
            self.url = settings.url or f"http://{settings.host}:{port}"
            self.ready.set()
            async with asyncio.TaskGroup() as group:
                for each in settings.destinations:
                    candidate = Candidate(settings, each, self.url, self._leaders)
                    group.create_task(candidate.run(stopped))
        finally:
            await runner.cleanup()

    @web.middleware
    async def _authorise(
        self,
        request: web.Request,
        handler: Callable[[web.Request], Awaitable[web.StreamResponse]],
    ) -> web.StreamResponse:
        if not authorised(request.headers.get("Authorization", ""), self.settings.token):
            raise web.HTTPUnauthorized(text="send the header Authorization: Bearer and the token\n")
        try:
            return await handler(request)
        except (ValueError, UnitError) as error:
            return web.json_response({"error": str(error)}, status=409)

    def _leader(self, request: web.Request) -> PathLeader:
        leader = self._leaders.get(request.match_info["destination"])
        if leader is None:
            raise web.HTTPMisdirectedRequest(text="another path service leads this destination\n")
        return leader

    async def _renew(self, request: web.Request) -> web.Response:
        leader, told = self._leader(request), await _told(request)
        question = leader.renew(
            text(told, "producer", SESSION_LENGTH),
            int(number(told, "number", 1 << 62)),
            _units(told, "leave"),
            _units(told, "ask"),
            told.get("close") is True,
        )
        return _json(await leader.ask(question))

    async def _move(self, request: web.Request) -> web.Response:
        leader, told = self._leader(request), await _told(request)
        unit, to = checked_name(text(told, "unit", 249)), int(number(told, "to", 1 << 31))
        by, reason = text(told, "by", 200), str(told.get("reason") or "")[:1000]

        moving = await leader.ask(leader.move(unit, to))
        logger.info("unit %s is to move to member %d, by %s: %s", printable(unit), to,
                    printable(by), printable(reason, 400))  # fmt: skip
        return _json(moving)

    async def _list(self, request: web.Request) -> web.Response:
        asked = request.query.get("unit")

        def question(paths: PathMap, now: float) -> dict[str, Any]:
            entries = paths.entries()
            names = [*entries][:ASKED] if asked is None else [asked]
            return {unit: asdict(entries[unit]) for unit in names if unit in entries}

        return _json(await self._leader(request).ask(question))


def _json(value: object) -> web.Response:
    return web.Response(body=orjson.dumps(value), content_type="application/json")


async def _told(request: web.Request) -> dict[str, Any]:
    found = orjson.loads(await request.read())
    if not isinstance(found, dict):
        raise FrameError("an object is wanted")
    return found


def _units(told: Mapping[str, Any], name: str) -> list[str]:
    found = told.get(name, [])
    if not isinstance(found, list) or len(found) > ASKED:
        raise FrameError(f"{name} is a list of at most {ASKED} units")
    if not all(isinstance(each, str) for each in found):
        raise FrameError(f"{name} is a list of names")
    return [checked_name(each) for each in found]
