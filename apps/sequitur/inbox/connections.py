"""How many connections a server has, and how long one may be idle or within a request."""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass

from aiohttp import web

from sequitur.relay.rate_limit import RateLimit

logger = logging.getLogger(__name__)

LINE = 8190
"""Bytes of a line of a request's head."""


@dataclass(frozen=True, slots=True)
class Limits:
    """connections: at a time; one beyond is closed at once. idle: seconds until a connection has
    sent the whole head of its next request, longer than clients keep one that they do not use.
    body: seconds until a request's body is there. bodies: requests that are read and received at a
    time; others wait."""

    connections: int = 200
    idle: float = 30.0
    body: float = 60.0
    bodies: int = 8


def bounded(server: web.Server, limits: Limits) -> Callable[[], asyncio.Protocol]:
    """What makes the protocol of each connection of `server`."""

    full = RateLimit()

    def connection() -> asyncio.Protocol:
        if len(server.connections) < limits.connections:
            return server()
        if full("connections"):
            logger.warning("%d connections are open: more are closed", limits.connections)
        return _Closed()

    return connection


class _Closed(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        transport.abort()
