"""The path service's process: it leads the destinations that its consumer group assigns to it."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import orjson
from aiohttp import web
from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, TopicPartition
from aiokafka.errors import KafkaError, ProducerFenced

from stores.units.errors import UnitError
from stores.units.kafka.topics import paths_topic, prepare, prepare_paths
from stores.units.naming import checked_name
from stores.units.paths.leader import PathLeader
from stores.units.routing import PathMap
from stores.units.wire import SESSION_LENGTH, FrameError, authorised, number, text
from topology.model.ending import end_tasks, wait_for_stop
from topology.model.printable import printable

logger = logging.getLogger(__name__)

ASKED = 1_000
"""Units that one question may name."""
AGAIN = 1.0
"""Seconds until a leader that failed starts again."""
TOKEN_LENGTH = 16


@dataclass(frozen=True, slots=True)
class PathSettings:
    """What a path service goes by.

    Args:
        destinations: the topics whose units it routes: one, or all of a cluster.
        kafka: arguments of aiokafka's clients.
        token: what producers and administrators show, of at least 16 characters.
        host: where it listens.
        port: where it listens; 0 for any.
        url: under which producers reach it; by default `http://host:port`.
        lease: seconds for which a producer may go by a route without hearing from the service.
    """

    destinations: tuple[str, ...]
    kafka: Mapping[str, Any]
    token: str = field(repr=False)
    host: str = "127.0.0.1"
    port: int = 0
    url: str | None = None
    lease: float = 10.0

    def __post_init__(self) -> None:
        if len(self.token) < TOKEN_LENGTH or not self.token.isascii():
            raise ValueError(f"the token needs at least {TOKEN_LENGTH} ASCII characters")
        if not 0.5 <= self.lease <= 3600:
            raise ValueError(f"lease is {self.lease}: it is 0.5 to 3,600 seconds")


class PathServer(ConsumerRebalanceListener):  # type: ignore[misc]
    """Serves paths. Of several processes one leads each destination, the others stand by.

    Args:
        settings: what it goes by.
    """

    def __init__(self, settings: PathSettings) -> None:
        self.settings = settings
        self.ready = asyncio.Event()
        """Set once it listens."""
        self.url = ""
        self._topics = {paths_topic(each): each for each in settings.destinations}
        self._leaders: dict[str, PathLeader] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}

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
            await self._stand(stopped)
        finally:
            await end_tasks(*self._tasks.values())
            await runner.cleanup()

    async def _stand(self, stopped: asyncio.Event) -> None:
        """Lead what the group assigns."""
        consumer = AIOKafkaConsumer(
            **{"retry_backoff_ms": 50, **self.settings.kafka},
            group_id=".".join(("units-paths", *sorted(self.settings.destinations)))[:249],
            enable_auto_commit=False,
            session_timeout_ms=round(max(6.0, self.settings.lease) * 1000),
            heartbeat_interval_ms=1000,
        )
        await consumer.start()
        self._consumer = consumer
        consumer.subscribe(list(self._topics), listener=self)
        try:
            while not stopped.is_set():
                try:
                    await consumer.getmany(timeout_ms=200)
                except KafkaError as error:
                    logger.warning("paths: %s; trying again", printable(error))
                    await asyncio.sleep(AGAIN)
        finally:
            await wait_for_stop(consumer.stop())

    async def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        """A leader goes on: who is not one any more is fenced by the next."""

    async def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        """Lead what is new, and let go of the rest."""
        self._consumer.pause(*assigned)  # the group is for the assignment alone
        mine = {self._topics[each.topic] for each in assigned if each.partition == 0}
        gone = [self._tasks.pop(each) for each in self._tasks.keys() - mine]
        for task in gone:
            task.cancel()
        for destination in mine - self._tasks.keys():
            self._tasks[destination] = asyncio.create_task(self._lead(destination))

    async def _lead(self, destination: str) -> None:
        settings = self.settings
        while True:
            leader = PathLeader(destination, dict(settings.kafka), settings.lease, self.url)
            try:
                self._leaders[destination] = leader
                await leader.run()
            except ProducerFenced:
                logger.warning("paths of %s: another service leads now", destination)
            except KafkaError as error:
                logger.warning("paths of %s: %s; starting again", destination, printable(error))
            except Exception:
                logger.exception("paths of %s: leading failed; starting again", destination)
            finally:
                if self._leaders.get(destination) is leader:
                    del self._leaders[destination]
            await asyncio.sleep(AGAIN)

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

        def question(paths: PathMap, now: float) -> dict[str, Any]:
            return asdict(paths.move(unit, str(to), now))

        moving = await leader.ask(question)
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
