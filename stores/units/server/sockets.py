"""Consumers' WebSockets: each is one session with one member."""

import asyncio
import logging
from collections.abc import Mapping
from typing import Any

from aiohttp import WSMsgType, web

from stores.units.errors import UnitError
from stores.units.kafka.records import OutgoingMessage
from stores.units.naming import checked_name
from stores.units.queue import Filter, Outcome
from stores.units.server.owner import Owner
from stores.units.server.session import Session
from stores.units.server.transactions import Send
from stores.units.wire import (
    FRAME_BYTES,
    NUMBERS,
    SENDS,
    SESSION_LENGTH,
    Frame,
    FrameError,
    decode,
    encode,
    number,
    numbers,
    text,
    texts,
    unpacked,
)
from topology.model.printable import printable

logger = logging.getLogger(__name__)

HELLO = 10.0
"""Seconds until a socket has said who it is."""
VALUE_BYTES = 1 << 20
"""The largest message that a transacted consumer may send."""
MOST_ATTRIBUTES = 100
"""Attributes of one."""


class Sockets:
    """Serves sockets. owners: member → owner. outputs: topics that consumers may send to."""

    def __init__(self, owners: Mapping[int, Owner], outputs: frozenset[str]) -> None:
        self._owners, self._outputs = owners, outputs

    async def handle(self, request: web.Request) -> web.WebSocketResponse:
        """One socket, from its beginning to its end."""
        socket = web.WebSocketResponse(max_msg_size=FRAME_BYTES, autoping=True)
        await socket.prepare(request)
        session: Session | None = None
        try:
            async with asyncio.timeout(HELLO):
                hello = decode(await socket.receive_bytes())
            if hello["t"] != "hello":
                raise FrameError("the first frame is 'hello'")
            owner = self._owners.get(int(number(hello, "member", 1 << 31)))
            if owner is None:
                raise UnitError("this server does not own the member now; look for its owner")
            session = self._welcome(owner, hello, socket)
            sending = asyncio.create_task(session.serve(socket))
            try:
                await self._listen(owner, session, socket)
            finally:
                sending.cancel()
        except (UnitError, FrameError, KeyError, TypeError, TimeoutError) as error:
            if not socket.closed:
                await socket.send_bytes(encode("refused", why=printable(error, 400)))
        finally:
            await socket.close()
        return socket

    def _welcome(self, owner: Owner, hello: Frame, socket: web.WebSocketResponse) -> Session:
        name = text(hello, "session", SESSION_LENGTH)
        prefetch = max(1, int(number(hello, "prefetch", NUMBERS, 1)))
        found = texts(hello, "filter")
        filter = Filter.of(**found) if found else Filter()
        held, completed = numbers(hello, "held"), numbers(hello, "completed")
        returned = numbers(hello, "returned")
        consumer = hello.get("consumer", "")
        if not isinstance(consumer, str) or len(consumer) > SESSION_LENGTH:
            raise FrameError(f"consumer is a text of at most {SESSION_LENGTH} characters")
        session, told = owner.join(name, prefetch, filter, held, completed, returned, consumer)
        session.attach(socket, "welcome", **told)
        there = {*held, *completed}
        rest = [each for each in session.held.values() if each.message.offset not in there]
        session.send_contents(rest)  # frames that the last connection did not bring
        return session

    async def _listen(self, owner: Owner, session: Session, socket: web.WebSocketResponse) -> None:
        async for message in socket:
            if message.type is not WSMsgType.BINARY:
                raise FrameError("frames are binary")
            frame = decode(message.data)
            kind = frame["t"]
            if kind == "beat":
                lease = owner.grant(session)
                session.send("beat", at=number(frame, "at", 1e18), lease=lease,
                             position=owner.durable_position)  # fmt: skip
                continue
            if kind == "leave":
                owner.leave(session, bool(frame.get("complete")))
                return
            try:
                self._carry_out(owner, session, kind, frame)
            except (UnitError, FrameError) as error:
                named = numbers(frame, "n")
                held = [each for each in named if each in session.held]
                session.send("refused", n=named, held=held, why=printable(error, 400))
            if frame.get("want"):
                owner.want(session)

    def _carry_out(self, owner: Owner, session: Session, kind: str, frame: Frame) -> None:
        match kind:
            case "want":
                owner.want(session)
            case "done":
                how = Outcome.RECOVERED if frame.get("recovered") else Outcome.ACKNOWLEDGED
                owner.complete(session, numbers(frame, "n"), how)
            case "commit":
                sends = self._sends(frame.get("sends", []))
                owner.complete(session, numbers(frame, "n"), Outcome.COMMITTED, sends)
            case "back":
                delay = None if frame.get("delay") is None else number(frame, "delay", 1e9)
                reason = printable(frame.get("reason", ""), 400)
                failed = frame.get("failed", True) is not False
                owner.roll_back(session, numbers(frame, "n"), delay, reason, failed)
            case _:
                raise FrameError(f"{printable(kind)!r} is no frame of this protocol")

    def _sends(self, found: Any) -> list[Send]:
        if not isinstance(found, list) or len(found) > SENDS:
            raise FrameError(f"sends is a list of at most {SENDS} messages")
        sends = []
        for each in found:
            if not isinstance(each, dict):
                raise FrameError("a message to be sent is an object")
            topic = text(each, "topic", 249)
            if topic not in self._outputs:
                raise UnitError(
                    f"consumers may not send to {printable(topic)!r}; start the servers with it as "
                    "an output"
                )
            unit = None if each.get("u") is None else checked_name(text(each, "u", 249))
            value, key = unpacked(each.get("v")), unpacked(each.get("k"))
            content = value or b""
            attributes = texts(each, "a") or {}
            size = sum(len(name.encode()) + len(a.encode()) for name, a in attributes.items())
            size += len(content) + len(key or b"")
            if size > VALUE_BYTES - 4096 or len(attributes) > MOST_ATTRIBUTES:
                raise UnitError(
                    f"a message to {printable(topic)!r} has over 1 MB, or over {MOST_ATTRIBUTES}"
                    " attributes; send less"
                )
            message = OutgoingMessage(
                content,
                attributes=attributes,
                not_before=each.get("not_before"),
                expires=each.get("expires"),
                sort=each.get("sort", 0),
            )
            try:
                message.headers(unit)
            except (ValueError, TypeError) as error:
                raise UnitError(f"a message cannot be sent: {error}") from None
            sends.append(Send(topic, message, unit, key, value is None))
        return sends
