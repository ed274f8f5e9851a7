"""Over HTTP to a cursor, without Kafka: a request is a batch, and the response acknowledges it.

A relay that was replaced needs no fence here: the cursor orders by sequence and discards what it
has, so whoever sends, and however often, each stream comes out once and in order.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import aiohttp
import orjson

from apps.relay.link import Answer, Missing, Sent, Unavailable
from apps.relay.wire import encode
from stores.message import Message

REQUEST_BYTES = 8 << 20
"""Contents and headers in one request; base64 makes it a third longer."""
REQUEST_MESSAGES = 2_000
VOID = 1_000
"""Void messages told of at a time."""


class HttpLink:
    """url: of the cursor, as http://127.0.0.1:7070. token: that it asks for. acknowledged: seconds
    within which a request has to be answered; else its messages are sent again."""

    def __init__(self, name: str, url: str, token: str, *, acknowledged: float = 20.0) -> None:
        self.name, self._url, self._token = name, url.rstrip("/"), token
        self._timeout = aiohttp.ClientTimeout(total=acknowledged, connect=5)
        self._session: aiohttp.ClientSession | None = None

    async def open(self) -> None:
        await self.close()
        headers = {"Authorization": f"Bearer {self._token}"}
        self._session = aiohttp.ClientSession(timeout=self._timeout, headers=headers)

    async def send(self, messages: Sequence[Message], answers: Sequence[Answer] = ()) -> Sent:
        found = Sent()
        for part in _parts(messages):
            sent = await self._post(encode(part, self.name))
            refused = {(topic, stream, at) for topic, stream, at in sent.get("refused", ())}
            found.refused = [
                *found.refused,
                *(m for m in part if (m.topic, m.stream, m.sequence) in refused),
            ]
            found.missing = [Missing(*each) for each in sent.get("missing", ())]
        voids = [Missing(*orjson.loads(answer.value)) for answer in answers]
        if voids or not messages:
            # Without messages it asks what is missing.
            sent = await self._post(encode((), self.name, voids))
            found.missing = [Missing(*each) for each in sent.get("missing", ())]
        if found.refused:
            found.reason = "the cursor has no room for more behind the gaps of their streams"
        return found

    async def _post(self, body: bytes) -> dict[str, Any]:
        if self._session is None:
            await self.open()
        assert self._session is not None
        try:
            async with self._session.post(f"{self._url}/messages", data=body) as response:
                answer = await response.read()
                if response.status != 200:
                    said = answer[:200].decode("utf-8", "replace")
                    raise Unavailable(f"{self._url} answers {response.status}: {said}")
                found = orjson.loads(answer)
        except (aiohttp.ClientError, OSError, TimeoutError, orjson.JSONDecodeError) as error:
            raise Unavailable(f"{self._url} did not acknowledge: {error!r}") from error
        return dict(found)

    async def void(self, missing: Missing, first: int, last: int) -> list[Answer]:
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
