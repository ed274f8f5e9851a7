"""A consumer's session with one member, as the owner sees it."""

import asyncio
from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from aiohttp import web

from stores.units.queue import Delivery
from stores.units.wire import NUMBERS, encode, packed

DELIVERED = 1 << 20
"""Bytes of messages after which a frame ends."""


def delivery_frame(delivery: Delivery, content: bool = True) -> dict[str, Any]:
    """A delivery as a frame carries it. content: whether the consumer does not have it yet."""
    message = delivery.message
    return {
        "n": delivery.number,
        "o": message.offset,
        "u": message.unit,
        "r": delivery.redeliveries,
        "a": dict(message.attributes),
        **({"v": packed(message.content or b"")} if content else {}),
    }


class Session:
    """What the owner knows of a session. Nothing is handed out before its row is durable.

    Attributes:
        consumer: whose session it is; another one by the same name is another consumer.
        unsettled: how many of its completions are not durable.
        wants: whether the consumer has asked for more.
        durable: whether the session's row is durable.
        granted: time by `elapsed` at which the lease that it was told of ends.
        held: deliveries in its hands, by number.
        completed: the offsets that it completed of late.
        told_held: the offsets that it held when it connected.
        told_completed: those that it had completed, as far as it knows without effect.
    """

    def __init__(self, name: str, consumer: str = "") -> None:
        self.name, self.consumer, self.granted = name, consumer, 0.0
        self.wants = self.durable = False
        self.unsettled = 0
        self.held: dict[int, Delivery] = {}
        self.completed: deque[int] = deque(maxlen=NUMBERS)
        self.told_held: list[int] = []
        self.told_completed: list[int] = []
        self._socket: web.WebSocketResponse | None = None
        self._frames: list[bytes] = []
        self._more = asyncio.Event()
        self._closing: asyncio.Task[Any] | None = None

    def attach(self, socket: web.WebSocketResponse, kind: str, **fields: object) -> None:
        """Go on by this socket, whose first frame this is; the one before is closed."""
        if self._socket is not None:
            self._closing = asyncio.get_running_loop().create_task(self._socket.close())
        self._socket, self.wants = socket, False
        self._frames = [encode(kind, **fields)]

    async def serve(self, socket: web.WebSocketResponse) -> None:
        """Send what is to be sent by this socket until another one takes its place."""
        with suppress(ConnectionError, RuntimeError):
            while self._socket is socket and not socket.closed:
                frames, self._frames = self._frames, []
                for frame in frames:
                    await socket.send_bytes(frame)
                if not self._frames:
                    self._more.clear()
                    await self._more.wait()

    @property
    def connected(self) -> bool:
        """Whether frames reach it."""
        return self._socket is not None and not self._socket.closed

    def send(self, kind: str, **fields: object) -> None:
        """Queue a frame; without a socket it is dropped: `welcome` tells all at the next one."""
        if self.connected:
            self._frames.append(encode(kind, **fields))
            self._more.set()

    def deliver(self, deliveries: Iterable[Delivery]) -> None:
        """Hand deliveries out."""
        found = list(deliveries)
        self.held.update((each.number, each) for each in found)
        self.send_contents(found)

    def send_contents(self, deliveries: Iterable[Delivery]) -> None:
        """Send deliveries with their contents, in frames of bounded size."""
        frame, size = list[dict[str, Any]](), 0
        for each in deliveries:
            if frame and size + each.message.size > DELIVERED:
                self.send("deliver", d=frame)
                frame, size = [], 0
            frame.append(delivery_frame(each))
            size += each.message.size
        if frame:
            self.send("deliver", d=frame)

    async def close(self, kind: str | None = None) -> None:
        """End the socket, after a last frame."""
        socket, self._socket = self._socket, None
        self._more.set()
        if socket is not None and not socket.closed:
            with suppress(ConnectionError, RuntimeError, TimeoutError):
                async with asyncio.timeout(1):
                    frames, self._frames = self._frames, []
                    for frame in frames:
                        await socket.send_bytes(frame)
                    if kind is not None:
                        await socket.send_bytes(encode(kind))
                    await socket.close()
