"""What answers the relay over HTTP: it is an acknowledgement that adds up, or none."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any, NamedTuple

import orjson
from hypothesis import strategies as st

from sequitur.relay.http_link import HttpLink
from sequitur.relay.link import Unavailable
from sequitur.relay.wire import BATCH
from soak.fuzz.mutation import bodies
from stores.message import Message

_MESSAGES = [Message("orders", "A-17", n, None, b"{}", id=n) for n in range(1, 4)]
_GOOD: dict[str, Any] = {"stored": 3, "duplicates": 0, "malformed": 0, "refused": [], "missing": []}
_SAMPLES = (
    {"batch": "?", **_GOOD},
    {"batch": "?", **_GOOD, "stored": 1, "duplicates": 2},
    {"batch": "?", **_GOOD, "stored": 2, "refused": [["orders", "A-17", 3]]},
    {"batch": "?", **_GOOD, "missing": [["orders", "A-17", 1, 2]]},
    _GOOD,
    {"status": "ok"},
    b"<html>log in</html>",
)
_TYPES = ["application/json", "application/json; charset=utf-8", "text/html", "", "x" * 300]


class Answer(NamedTuple):
    """One answer, as aiohttp gives it."""

    status: int
    type: str
    packed: str | None
    body: bytes


class _Response:
    def __init__(self, answer: Answer) -> None:
        kind, _, charset = answer.type.partition("; charset=")
        self.status, self.content_type, self.charset = answer.status, kind, charset or None
        self.headers = {"Content-Type": answer.type}
        if answer.packed is not None:
            self.headers["Content-Encoding"] = answer.packed
        self.content = self
        self._body = answer.body

    async def iter_any(self) -> AsyncIterator[bytes]:
        yield self._body

    async def __aenter__(self) -> "_Response":
        return self

    async def __aexit__(self, *_: object) -> None: ...


class _Session:
    """Answers all requests alike, about their own batch where the answer says `?`."""

    def __init__(self, answer: Answer) -> None:
        self._answer, self.given = answer, b""

    def post(self, _: str, *, headers: dict[str, str], **more: Any) -> _Response:
        assert more["allow_redirects"] is False
        self.given = self._answer.body.replace(b'"?"', orjson.dumps(headers[BATCH]))
        return _Response(self._answer._replace(body=self.given))

    async def close(self) -> None: ...


class RelayAnswers:
    """Some answers to one relay, of which each is told apart."""

    name = "relay-answers"

    def strategy(self) -> st.SearchStrategy[list[Answer]]:
        """Mostly 200 and JSON, with accounts that are nearly right."""
        return st.lists(
            st.builds(
                Answer,
                st.sampled_from([200, 200, 200, 200, 204, 301, 400, 401, 413, 500, 999]),
                st.sampled_from(_TYPES),
                st.sampled_from([None, None, None, "gzip", "identity"]),
                bodies(_SAMPLES).map(lambda body: body or b""),
            ),
            min_size=1,
            max_size=5,
        )

    def run(self, input: list[Answer]) -> None:
        """Nothing but Unavailable is raised, and what is acknowledged was accounted for."""
        asyncio.run(self._run(input))

    async def _run(self, answers: list[Answer]) -> None:
        link: Any = HttpLink("fuzz", "http://user:secret@127.0.0.1:1", "a-token-of-enough-length")
        told: list[str] = []
        for answer in answers:
            link._session = session = _Session(answer)
            try:
                sent = await link.send(_MESSAGES)
            except Unavailable as error:
                told.append(str(error))
                continue
            found = orjson.loads(session.given)
            counted = sum(found[name] for name in ("stored", "duplicates", "malformed"))
            assert counted + len(found["refused"]) == len(_MESSAGES), found
            assert len(sent.refused) == len(found["refused"])
            assert (answer.status, answer.packed or "identity") == (200, "identity")
        for each in told:
            assert "secret" not in each
            assert each.isprintable()
