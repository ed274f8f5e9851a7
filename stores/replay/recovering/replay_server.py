"""The replay server, as a consumer asks it over HTTP."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import aiohttp

from stores.replay.query import Query
from stores.replay.recovering.errors import RecoveryRefused
from topology.model.printable import printable

_SECONDS = 30.0
_FAILED = {"failed", "cancelled", "closed"}


class ServerAway(ConnectionError):
    """The server does not answer now."""


class RecoveryUnknown(RecoveryRefused):
    """The server does not know a recovery: its log was restored from a backup, maybe."""


class RecoveryStatus(NamedTuple):
    """What the server says of a recovery: its id, topic → the one to read instead, and the rest.

    failed: why it does not end; "": it does. paused: why it stands still; "": it does not. gone:
    what was asked for and is not there, in words.
    """

    id: str
    topics: dict[str, str]
    through_router: bool
    failed: str
    paused: str
    gone: tuple[str, ...] = ()


class ReplayServer:
    """A replay server.

    Args:
        url: its address.
        token: that it wants to see; "": it is only asked how a recovery is.
    """

    def __init__(self, url: str, token: str = "") -> None:
        self.url = url.rstrip("/")
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}

    async def recover(
        self, query: Query, positions: Mapping[str, Mapping[int, int]], **more: Any
    ) -> RecoveryStatus:
        """Ask for a recovery.

        Args:
            query: which messages.
            positions: topic → partition → the next offset on the primary.
            more: way, rules, actor, reason.

        Raises:
            RecoveryRefused: the server refuses it, and says why.
            ServerAway: it does not answer.
        """
        where = {
            topic: {str(number): at for number, at in parts.items()}
            for topic, parts in positions.items()
        }
        asked = {"topics": [*positions], "query": query.to_json(), "positions": where, **more}
        return await self._ask("POST", "/recoveries", asked)

    async def status(self, recovery: str) -> RecoveryStatus:
        """How a recovery is. Raises RecoveryUnknown, RecoveryRefused, ServerAway."""
        return await self._ask("GET", f"/recoveries/{recovery}")

    async def close(self, recovery: str, reason: str) -> None:
        """End a recovery, which deletes its topics. Raises RecoveryRefused, ServerAway."""
        said = {"actor": "RecoveringConsumer", "reason": reason[:400]}
        await self._ask("POST", f"/recoveries/{recovery}/close", said)

    async def _ask(self, method: str, path: str, said: object = None) -> RecoveryStatus:
        timeout = aiohttp.ClientTimeout(_SECONDS)
        try:
            async with (
                aiohttp.ClientSession(timeout=timeout, headers=self._headers) as session,
                session.request(method, f"{self.url}{path}", json=said) as answer,
            ):
                found: Any = await answer.json(content_type=None)
            if answer.status < 300:
                state = found["state"]
                why = printable(f"{state}: {found['why']}", 400)
                failed, paused = why * (state in _FAILED), why * (state == "paused")
                gone = tuple(printable(each, 200) for each in found["gone"])
                return RecoveryStatus(
                    *(found["id"], found["topics"], found["through_router"]),
                    *(failed, paused, gone),
                )
            problem = printable(found["error"], 400)
        except (TimeoutError, aiohttp.ClientError, OSError) as error:
            raise ServerAway(f"the replay server at {self.url}: {error!r}") from None
        except (ValueError, KeyError, TypeError):
            raise ServerAway(f"{self.url} answers {answer.status}, and not as it should") from None
        if answer.status >= 500:
            raise ServerAway(f"the replay server at {self.url}: {problem}")
        if answer.status == 404:
            raise RecoveryUnknown(f"the replay server at {self.url}: {problem}")
        raise RecoveryRefused(f"the replay server at {self.url} refuses: {problem}")
