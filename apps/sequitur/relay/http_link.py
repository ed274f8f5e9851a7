"""Over HTTP to an inbox, without Kafka: a request is a batch, and the response acknowledges it.

A relay that was replaced needs no fence here: the inbox orders by sequence and discards what it
has, so whoever sends, and however often, each stream comes out once and in order.
"""

from collections.abc import Iterator, Sequence
from typing import NoReturn
from uuid import uuid4

import aiohttp
import orjson

from sequitur.relay.acknowledgement import ANSWER_BYTES, Acknowledgement, acknowledgement
from sequitur.relay.link import Answer, MissingRange, SendResult, Unavailable
from sequitur.relay.wire import BATCH, encode
from stores.db.urls import said, without_password
from stores.message import Message
from topology.model.printable import printable

REQUEST_BYTES = 8 << 20
"""Contents and headers in one request; base64 makes it a third longer."""
REQUEST_MESSAGES = 2_000
REQUEST_VOIDS = 8_000
VOID = 1_000
"""Void messages told of at a time."""


class _Unfit(Exception):
    """The inbox says that what it was sent is no batch."""


class HttpLink:
    """url: of the inbox, as http://127.0.0.1:7070. token: that it asks for. acknowledged: seconds
    within which a request has to be answered; else its messages are sent again."""

    def __init__(self, name: str, url: str, token: str, *, acknowledged: float = 20.0) -> None:
        self.name, self._url, self._token = name, url.rstrip("/"), token
        self._shown = printable(without_password(self._url))
        self._timeout = aiohttp.ClientTimeout(total=acknowledged, connect=5)
        self._session: aiohttp.ClientSession | None = None

    async def open(self, log: str = "") -> None:
        await self.close()
        # What is answered is taken as it comes: nothing is followed, unpacked or remembered.
        self._session = aiohttp.ClientSession(
            timeout=self._timeout,
            headers={"Authorization": f"Bearer {self._token}", "Accept-Encoding": "identity"},
            auto_decompress=False,
            cookie_jar=aiohttp.DummyCookieJar(),
        )

    async def send(self, messages: Sequence[Message], answers: Sequence[Answer] = ()) -> SendResult:
        found, refused = SendResult(), list[Message]()
        for part in _parts(messages):
            refused += await self._send(part, found)
        voids = [MissingRange(*orjson.loads(answer.value)) for answer in answers]
        for some in _of_requests(voids) or ([] if messages else [[]]):
            # Without messages it asks what is missing.
            try:
                found.missing = [*found.missing, *(await self._post((), some)).missing]
            except _Unfit as error:  # who misses them asks again
                found.reason = str(error)
        found.refused = refused
        return found

    async def _send(self, messages: list[Message], found: SendResult) -> list[Message]:
        """Send messages of one request; returns those that are refused."""
        try:
            answer = await self._post(messages)
        except _Unfit as error:
            await self._check()
            if len(messages) == 1:
                found.reason = str(error)
                return messages
            # One of them is what the inbox cannot read: look for it.
            half = len(messages) // 2
            refused = await self._send(messages[:half], found)
            stuck = {(message.topic, message.stream) for message in refused}
            rest = [m for m in messages[half:] if (m.topic, m.stream) not in stuck]
            behind = [m for m in messages[half:] if (m.topic, m.stream) in stuck]
            return [*refused, *behind, *(await self._send(rest, found) if rest else ())]
        found.missing = [*found.missing, *answer.missing]
        if answer.refused:
            found.reason = "the inbox has no room for more behind the gaps of their streams"
        return [m for m in messages if (m.topic, m.stream, m.sequence) in answer.refused]

    async def _check(self) -> None:
        """See that what answers is an inbox, by a batch that any inbox can read."""
        try:
            await self._post(())
        except _Unfit as error:
            raise Unavailable(
                f"{self._shown} is no inbox, or not of this version: {error}"
            ) from error

    async def _post(
        self, messages: Sequence[Message], voids: Sequence[MissingRange] = ()
    ) -> Acknowledgement:
        if self._session is None:
            await self.open()
        assert self._session is not None
        batch = uuid4().hex
        try:
            async with self._session.post(
                f"{self._url}/messages",
                data=encode(messages, self.name, voids),
                headers={BATCH: batch},
                allow_redirects=False,
            ) as response:
                answer = await _read(response)
                if response.status != 200:
                    self._complain(response, answer)
                charset = response.charset or "utf-8"
                if response.content_type != "application/json" or charset.lower() != "utf-8":
                    told = printable(response.headers.get("Content-Type", "of no type"))
                    raise ValueError(f"it is {told}, not JSON in UTF-8")
                number = sum(void.last - void.first + 1 for void in voids)
                return acknowledgement(answer, batch, messages, number)
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            told = printable(said(error, self._url), 400)
            raise Unavailable(f"{self._shown} did not answer: {told}") from error
        except ValueError as error:
            raise Unavailable(f"{self._shown} did not acknowledge: {error}") from error

    def _complain(self, response: aiohttp.ClientResponse, answer: bytes) -> NoReturn:
        said = printable(answer[:400].decode("utf-8", "replace").strip(), 200)
        if 300 <= response.status < 400:
            said = "that is a redirect, which is not followed; give the URL of the inbox itself"
        if response.status in (400, 413, 422):
            raise _Unfit(f"the inbox cannot read it ({response.status}: {said})")
        raise Unavailable(f"{self._shown} answers {response.status}: {said}")

    async def void(self, missing: MissingRange, first: int, last: int) -> list[Answer]:
        return [
            Answer(
                "", b"", orjson.dumps([missing.topic, missing.stream, at, min(at + VOID - 1, last)])
            )
            for at in range(first, last + 1, VOID)
        ]

    async def close(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            await session.close()


def _parts(messages: Sequence[Message]) -> Iterator[list[Message]]:
    part: list[Message] = []
    size = 0
    for message in messages:
        more = len(message.content) + sum(map(len, (*message.headers, *message.headers.values())))
        if part and (size + more > REQUEST_BYTES or len(part) >= REQUEST_MESSAGES):
            yield part
            part, size = [], 0
        part.append(message)
        size += more
    if part:
        yield part


async def _read(response: aiohttp.ClientResponse) -> bytes:
    """The body as it came. Raises ValueError where it has no end, or is packed."""
    if response.headers.get("Content-Encoding", "identity") != "identity":
        raise ValueError("it is packed, which was not asked for")
    found = bytearray()
    async for some in response.content.iter_any():
        found += some
        if len(found) > ANSWER_BYTES:
            raise ValueError(f"it is longer than {ANSWER_BYTES} bytes")
    return bytes(found)


def _of_requests(voids: Sequence[MissingRange]) -> list[list[MissingRange]]:
    """Void ranges, as many at a time as one request may name."""
    found: list[list[MissingRange]] = []
    number = REQUEST_VOIDS
    for void in voids:
        number += void.last - void.first + 1
        if number > REQUEST_VOIDS:
            found.append([])
            number = void.last - void.first + 1
        found[-1].append(void)
    return found
