"""What the server does for a request."""

import asyncio
import re
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from typing import Any, Protocol, TypeVar

from sequitur.replay.server import models as m
from sequitur.replay.server.description import Route
from stores.replay import Query, ReplayError
from stores.replay.errors import Busy, UnknownReplay
from stores.replay.recoveries import Recoveries, Recovery, RecoveryRequest
from stores.replay.recovery_topics import RecoveryTopics
from stores.replay.replay_state import ReplayAction, ReplayState
from stores.replay.replays import ReplayRequest, Replays

T = TypeVar("T")
_AT_ONCE = 4
"""Queries that the database works on; others wait."""
_WAIT = 30.0
_ID = re.compile("[0-9a-f]{12}")
_AS = "Ask for a recovery by an id of your own, 12 of 0-9a-f; what is known stays as it is."


class RouterRules(Protocol):
    """The rules of now; see `sequitur.route.replay_way`."""

    def of_sources(
        self, query: Query, captured: Collection[str], wanted: Iterable[str]
    ) -> Query: ...


class Service:
    """The log, its replays and recoveries.

    Args:
        recoveries: of the log.
        topics: Kafka's.
        applications: name → its topics.
        router: the rules of now; None: there are none.
        query_seconds: that a query may take.
    """

    def __init__(
        self,
        recoveries: Recoveries,
        topics: RecoveryTopics,
        applications: Mapping[str, Sequence[str]],
        router: RouterRules | None = None,
        query_seconds: float = 30.0,
    ) -> None:
        self._recoveries, self._topics, self._router = recoveries, topics, router
        self._log = recoveries.replays.log.limited(query_seconds)
        self._replays = Replays(self._log)
        self._applications = applications
        self._querying = asyncio.Semaphore(_AT_ONCE)
        self._threads = ThreadPoolExecutor(_AT_ONCE, "queries")
        self.took: Callable[[float], None] = lambda seconds: None
        """Is told of the time of each query."""

    def routes(self) -> list[Route]:
        """All routes."""
        get, post, at = "GET", "POST", "/replays/{id}"
        about = "Preview a replay, which freezes its set."
        found = [
            Route("log", get, "/log", "What the log has.", self.log, m.LogModel),
            Route("count", post, "/queries/count", "Count.", self.count, m.Count, m.CountRequest),
            Route("page", post, "/queries/page", "Read.", self.page, m.MessagePage, m.PageRequest),
            Route("message", get, "/messages/{id}", "Read one message.", self.message, m.Message),
            Route(
                *("preview", post, "/replays", about, self.preview),
                *(m.ReplayDetail, m.ReplayRequestModel, True, 201),
            ),
            Route(
                *("replays", get, "/replays", "List replays.", self.replays),
                *(m.ReplayList, m.ReplayListRequest),
            ),
            Route("replay", get, at, "Look at a replay.", self.replay, m.ReplayDetail),
            Route(
                *("recover", post, "/recoveries", "Ask for a recovery.", self.recover),
                *(m.RecoveryModel, m.RecoveryRequestModel, True, 202),
            ),
            Route(
                *("recoveries", get, "/recoveries", "List recoveries.", self.recoveries),
                *(m.RecoveryList, m.ListRequest),
            ),
            Route(
                *("recovery", get, "/recoveries/{id}", "Look at a recovery.", self.recovery),
                m.RecoveryModel,
            ),
            Route(
                *("recoverAs", "PUT", "/recoveries/{id}", _AS, self.recover),
                *(m.RecoveryModel, m.RecoveryRequestModel, True, 202),
            ),
            Route(
                *("close", post, "/recoveries/{id}/close", "End it, and delete its topics."),
                *(self.close, m.RecoveryModel, m.Act, True),
            ),
        ]
        for action, asks in (
            *((ReplayAction.START, m.Act), (ReplayAction.PAUSE, m.Act)),
            *((ReplayAction.RESUME, m.Resume), (ReplayAction.CANCEL, m.Act)),
        ):
            about, do = f"{action.capitalize()} a replay.", self._acting(action)
            found.append(
                Route(action, post, f"{at}/{action}", about, do, m.ReplayDetail, asks, True)
            )
        return found

    async def log(self, _: None, __: str) -> m.LogModel:
        def read() -> m.LogModel:
            log = self._log
            return m.LogModel(
                end=log.end(),
                fields={name: kind.value for name, kind in log.declared().items()},
                topics={
                    topic: {str(n): at for n, at in log.positions(topic).items()}
                    for topic in log.topics()
                },
                applications={name: list(each) for name, each in self._applications.items()},
                gone=m.gone(log.holes(Query())),
            )

        return await asyncio.to_thread(read)

    async def count(self, asked: m.CountRequest, _: str) -> m.Count:
        query = asked.query.query()

        def read() -> m.Count:
            end = self._log.end()
            through = end if query.through is None else min(end, query.through)
            messages = self._log.count(replace(query, through=through))
            gone = m.gone(self._log.holes(query))
            return m.Count(messages=messages, through=through, gone=gone)

        return await self._queries(read)

    async def page(self, asked: m.PageRequest, _: str) -> m.MessagePage:
        query = asked.query.query()

        def read() -> m.MessagePage:
            page = self._log.page(query, asked.limit, content=asked.content)
            messages = [m.Message.of(each) for each in page.messages]
            return m.MessagePage(messages=messages, after=page.after)

        return await self._queries(read)

    async def message(self, _: None, id: str) -> m.Message:
        number = int(id) if id.isascii() and id.isdigit() and len(id) < 19 else 0
        found = await asyncio.to_thread(lambda: self._log.message(number)) if number else None
        if found is None:
            raise UnknownReplay(f"there is no message {id!r}, or retention took it")
        return m.Message.of(found)

    async def preview(self, asked: m.ReplayRequestModel, _: str) -> m.ReplayDetail:
        request = ReplayRequest(
            *(asked.query.query(), asked.to, asked.actor, asked.reason, asked.rate, asked.refused)
        )
        return await self._queries(lambda: self._detail(self._replays.preview(request).id))

    async def replays(self, asked: m.ReplayListRequest, _: str) -> m.ReplayList:
        state = None if asked.state is None else ReplayState(asked.state)
        found = await asyncio.to_thread(lambda: self._replays.newest(asked.limit, state))
        return m.ReplayList(replays=[m.ReplayModel.of(each) for each in found])

    async def replay(self, _: None, id: str) -> m.ReplayDetail:
        return await asyncio.to_thread(lambda: self._detail(id))

    async def recover(self, asked: m.RecoveryRequestModel, id: str) -> m.RecoveryModel:
        """Take a request. id: what it is known by, if whoever asks knows that; else ""."""
        if id:
            with suppress(UnknownReplay):  # it was taken before
                return await self.recovery(None, id)
        if id and not _ID.fullmatch(id):
            raise ReplayError(f"id {id!r}: name it by 12 of the characters 0-9a-f")
        request = await asyncio.to_thread(self._request, asked)
        async with asyncio.timeout(_WAIT):
            ends = await self._topics.ends({*request.topics, *request.query.topics})
        made = await asyncio.to_thread(lambda: self._recoveries.request(request, ends, id))
        return await self.recovery(None, made.id)

    async def recoveries(self, asked: m.ListRequest, _: str) -> m.RecoveryList:
        def read() -> m.RecoveryList:
            found = self._recoveries.newest(asked.limit)
            return m.RecoveryList(recoveries=[self._shown(each) for each in found])

        return await asyncio.to_thread(read)

    async def recovery(self, _: None, id: str) -> m.RecoveryModel:
        return await asyncio.to_thread(lambda: self._shown(self._recoveries.get(id)))

    async def close(self, asked: m.Act, id: str) -> m.RecoveryModel:
        close = self._recoveries.close
        return await asyncio.to_thread(lambda: self._shown(close(id, asked.actor, asked.reason)))

    def _acting(self, action: ReplayAction) -> Any:
        async def act(asked: m.Act, id: str) -> m.ReplayDetail:
            refused = asked.refused if isinstance(asked, m.Resume) else None

            def do() -> m.ReplayDetail:
                self._replays.act(id, action, asked.actor, asked.reason, on_refused=refused)
                return self._detail(id)

            return await asyncio.to_thread(do)

        return act

    def _detail(self, id: str) -> m.ReplayDetail:
        count, first = self._replays.refused(id)
        return m.ReplayDetail.of(
            self._replays.get(id),
            actions=[m.ActionModel.model_validate(each) for each in self._replays.history(id)],
            left_out=count,
            first_left_out=[m.LeftOut(message=at, reason=reason) for at, reason in first],
        )

    def _shown(self, recovery: Recovery) -> m.RecoveryModel:
        with suppress(UnknownReplay):
            replay = self._replays.get(recovery.id)
            return m.RecoveryModel.of(recovery, replay, "", replay.holes)
        waits = [
            f"{topic}/{number}, captured up to {at} of {of}"
            for topic, number, at, of in self._recoveries.waits_for(recovery)[:5]
        ]
        waits_for = f"it waits for {'; '.join(waits) or 'its turn'}"
        return m.RecoveryModel.of(recovery, None, waits_for, self._recoveries.gone(recovery))

    def _request(self, asked: m.RecoveryRequestModel) -> RecoveryRequest:
        topics, query = tuple(asked.topics), asked.query.query()
        if (name := asked.application) is not None:
            if topics or name not in self._applications:
                known = ", ".join(self._applications) or "none"
                raise ReplayError(f"application {name!r}: name topics, or one of: {known}")
            topics = tuple(self._applications[name])
        by_rules = asked.way == "router" and asked.rules == "now"
        if by_rules:
            if self._router is None:
                raise ReplayError("the server has no rules: name a router in its file, [server]")
            query = self._router.of_sources(query, self._log.topics(), topics)
        positions = {
            topic: {int(number): at for number, at in parts.items() if number.isdecimal()}
            for topic, parts in asked.positions.items()
        }
        return RecoveryRequest(
            *(topics, query, asked.actor, asked.reason, by_rules, positions, asked.rate, asked.keep)
        )

    async def _queries(self, work: Callable[[], T]) -> T:
        """What may take long; nothing else waits for it."""
        try:
            async with asyncio.timeout(_WAIT):
                await self._querying.acquire()
        except TimeoutError:
            what = f"{_AT_ONCE} queries have been under way for {_WAIT:.0f} s; try again"
            raise Busy(what) from None
        begun = time.monotonic()
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, work)
        finally:
            self.took(time.monotonic() - begun)
            self._querying.release()
