"""The unit server: owners of members, the sockets of consumers, and administration."""

import asyncio
from collections.abc import Awaitable, Callable

from aiohttp import web

from stores.units.kafka.topics import members_of, prepare
from stores.units.server.administration import Administration
from stores.units.server.owner import Owner
from stores.units.server.partitions import OwnedPartitions
from stores.units.server.settings import ServerSettings
from stores.units.server.sockets import Sockets
from stores.units.wire import PATH, authorised

BODY_BYTES = 1 << 20

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class UnitServer:
    """A server of one subscriber of a destination. Several share its members.

    Args:
        settings: what it goes by.
    """

    def __init__(self, settings: ServerSettings) -> None:
        self.settings = settings
        self.ready = asyncio.Event()
        """Set once it listens."""
        self.url = ""
        self.owners: dict[int, Owner] = {}
        """Member → its owner, once it has restored what is durable."""
        self.partitions: OwnedPartitions | None = None
        """What it owns, once it listens."""

    async def run(self, stopped: asyncio.Event) -> None:
        """Serve until it is told to stop; then hand over in order.

        Args:
            stopped: tells it to stop.

        Raises:
            UnitError: the destination, or a topic among the outputs, does not exist.
            KafkaError: Kafka cannot be reached.
            OSError: it cannot listen there.
        """
        settings = self.settings
        rows = await prepare(settings.kafka, settings.destination)
        members = await members_of(settings.kafka, settings.outputs) if settings.outputs else {}
        app = web.Application(middlewares=[self._authorise], client_max_size=BODY_BYTES)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=1)
        owners = self.owners
        administration = Administration(settings, owners, members)
        sockets = Sockets(owners, settings.outputs)
        app.router.add_get(PATH, sockets.handle)
        app.router.add_get("/status", administration.status)
        app.router.add_get("/records", administration.records)
        app.router.add_post("/administration", administration.carry_out)
        app.router.add_get("/health", self._health)
        await runner.setup()
        try:
            site = web.TCPSite(runner, settings.host, settings.port)
            await site.start()
            port = runner.addresses[0][1]
            self.url = settings.url or f"http://{settings.host}:{port}"
            self.ready.set()
            self.partitions = OwnedPartitions(settings, rows, members, self.url, owners)
            await self.partitions.run(stopped)
        finally:
            await runner.cleanup()

    @web.middleware
    async def _authorise(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        given = request.headers.get("Authorization", "")
        if request.path != "/health" and not authorised(given, self.settings.token):
            raise web.HTTPUnauthorized(text="send the header Authorization: Bearer and the token\n")
        return await handler(request)

    async def _health(self, _: web.Request) -> web.Response:
        return web.Response(text="ok\n")
