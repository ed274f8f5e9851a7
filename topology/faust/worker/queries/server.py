"""The HTTP server of queries: GET /query, and who has what is told by a redirect."""

import logging
import time
from collections import defaultdict
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from aiohttp import web
from aiokafka import TopicPartition
from pydantic_core import to_json

from stores.view_state import TableError
from topology.engine.state.reading import StreamReader, page
from topology.faust.worker.engine import Engine
from topology.faust.worker.queries.ownership import NotHere, NotYet, Ownership, Place
from topology.faust.worker.queries.question import Question, Wrong
from topology.monitoring import Lags
from topology.monitoring.same_origin import loopback, same_origin

logger = logging.getLogger(__name__)

LINE = 16_384
"""Bytes of a request's address, at most."""


class QueryServer:
    """Answers questions about the state of views. It only reads.

    Args:
        app: the worker's app.
        engine: its engine.
    """

    def __init__(self, app: Any, engine: Engine) -> None:
        self._engine = engine
        self._ownership = Ownership(app, engine)
        self._lags: defaultdict[tuple[str, TopicPartition], Lags] = defaultdict(Lags)
        """Of each view in each partition: each is asked about, and stands, by itself."""
        self._runner: web.AppRunner | None = None
        self._local = False

    async def start(self, address: str) -> None:
        """Listen.

        Args:
            address: host:port.

        Raises:
            OSError: the address is taken, or none of this machine's.
        """
        host, _, port = address.rpartition(":")
        self._local = loopback(host.strip("[]"))
        app = web.Application(handler_args={"max_line_size": LINE})
        app.router.add_get("/query", self._query)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=1)
        await self._runner.setup()
        await web.TCPSite(self._runner, host.strip("[]"), int(port)).start()
        logger.info("queries of state: http://%s/query", address)

    async def stop(self) -> None:
        """Listen no longer."""
        if self._runner is not None:
            await self._runner.cleanup()

    async def _query(self, request: web.Request) -> web.Response:
        reason = same_origin(request.host, request.headers.get("Origin"), local=self._local)
        if reason is not None:
            return _refused(403, reason)
        try:
            question = Question.read(self._engine.topology, request.query)
            place = await self._ownership.place(question)
            return await self._answer(question, place)
        except Wrong as error:
            return _refused(error.status, str(error))
        except NotHere as error:
            if not error.owner:
                return _refused(503, f"{error}, and no worker is known to have it; ask again")
            asked = {**request.query}
            if error.not_in:
                asked["not_in"] = f"{error.not_in:x}"
            to = f"{error.owner.rstrip('/')}/query?{urlencode(asked)}"
            answer = {"error": str(error), "owner": error.owner}
            return _json(answer, 307, {"Location": to})
        except NotYet as error:
            return _refused(503, str(error))
        except TableError as error:
            return _refused(503, f"the table cannot be read: {error}")

    async def _answer(self, question: Question, place: Place) -> web.Response:
        ownership, view = self._ownership, question.view
        staleness: float | None = None
        began = time.monotonic()
        if (most := question.max_staleness) is not None:
            staleness = await ownership.catch_up(place, most)
        certain, end = await ownership.certain(), await ownership.end(place.partition)
        if not ownership.still(place):
            raise NotYet("the partition is being taken away, or starts again")
        # From here on nothing awaits: rows, state and offset are those of one commit.
        offset = place.offset
        lag = None if end is None else self._lag(place, end, offset)
        if most is not None:
            staleness = None if staleness is None else time.monotonic() - began
            if staleness is None or staleness > most or not certain:
                why = "" if certain else ", and the group does not confirm that it is this worker's"
                return _refused(
                    503, f"the view is not known to have all that came {most:g} s ago{why}; it is "
                    f"at offset {offset} of {place.partition.topic}, whose end is {end}"
                )  # fmt: skip
        reader = StreamReader(view, place.table, question.stream)
        found: dict[str, Any] = {}
        following: int | None = None
        if question.what == "state":
            found["state"] = reader.stream.state
        elif question.what == "cells":
            cells = reader.cells(question.first, question.end, question.skip)
            taken, following = page(cells, question.limit, question.skip)
            found["cells"] = dict(taken)
        else:
            rows = reader.rows(question.fold, question.skip)
            found["rows"], following = page(rows, question.limit, question.skip)
        stream = reader.stream
        return _json(
            {
                "view": view.name,
                "stream": question.stream,
                "known": stream.known,
                "sequence": stream.sequence,
                "epoch": stream.epoch,
                "waits": stream.waits,
                **found,
                "next": following,
                "as_of": {
                    "topic": place.partition.topic,
                    "partition": place.partition.partition,
                    "offset": offset,
                    "end": end,
                    "lag_records": None if lag is None else lag[0],
                    "lag_seconds": None if lag is None else lag[1],
                    "staleness_seconds": staleness,
                    "certain": certain,
                    "halted": place.halted,
                },
            }
        )

    def _lag(self, place: Place, end: int, offset: int) -> tuple[int, float] | None:
        """(records, seconds) from where a view stands to the end of its input."""
        lags, now = self._lags[place.view.name, place.partition], time.monotonic()
        lags.note({place.partition: end}, now)
        return lags.of(place.partition, offset, now)


def _refused(status: int, why: str) -> web.Response:
    return _json({"error": why}, status, {"Retry-After": "1"} if status == 503 else None)


def _json(
    answer: Mapping[str, Any], status: int = 200, headers: Mapping[str, str] | None = None
) -> web.Response:
    return web.Response(
        body=to_json(answer), status=status, headers=headers, content_type="application/json"
    )
