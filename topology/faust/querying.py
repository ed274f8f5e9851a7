"""Ask the workers of an app for the state of a view."""

from typing import Any

import aiohttp

from topology.faust.inspection import CannotAnswer

PATIENCE = 30.0
"""Seconds that an answer may take."""
WORKERS = 100
"""That one question may be led to, one after the other."""


async def query(
    app: Any,
    view: str,
    stream: str,
    *,
    worker: str = "",
    **asked: str | int | None,
) -> dict[str, Any]:
    """Ask for a stream's rows, cells or state in a view, of whichever worker has it.

    Args:
        app: what `compile` returned.
        view: the view's name.
        stream: the stream; of a fold by key, the key.
        worker: host:port or URL of any worker; that of the app's settings unless given.
        asked: `what`, `fold`, `limit`, `skip` and `max_staleness`, see docs/querying.md; `first`
            and `end`, of cells. None is what is not asked.

    Returns:
        The answer; `as_of` says what it is as of.

    Raises:
        CannotAnswer: no worker answers, or it says why it cannot.
    """
    at = worker or app.engine.settings.queries_url or ""
    if not at:
        raise CannotAnswer("no worker's address is known: give one, or set SEQUITUR_QUERIES")
    url = at if "://" in at else f"http://{at}"
    names = {"first": "from", "end": "to"}
    given = {name: str(value) for name, value in asked.items() if value is not None}
    params = {names.get(name, name): text for name, text in given.items() if text}
    limit = aiohttp.ClientTimeout(PATIENCE)
    try:
        async with (
            aiohttp.ClientSession(timeout=limit) as session,
            session.get(
                f"{url.rstrip('/')}/query",
                params={"view": view, "stream": stream, **params},
                max_redirects=WORKERS,
            ) as response,
        ):
            answer: dict[str, Any] = await response.json()
    except (aiohttp.ClientError, TimeoutError, ValueError) as error:
        raise CannotAnswer(f"no worker answers at {url}: {error!r}") from None
    if response.status != 200:
        raise CannotAnswer(str(answer.get("error", answer)))
    return answer
