"""The runner of a replay: publishes the frozen set page by page, each page once.

A page and the place behind it are one transaction of Kafka, so that who goes on after a crash knows
what is published; that beats what SQL says. SQL says whether to go on at all: it is asked before
each page, so that pause and cancel hold within one.
"""

import asyncio
import logging
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

from sqlalchemy.exc import SQLAlchemyError

from stores.db.urls import said
from stores.locks.lease import Lease, LeaseLost
from stores.replay.errors import Busy, ReplayError, WrongState
from stores.replay.log import Page
from stores.replay.message import CapturedMessage
from stores.replay.replay_state import ReplayAction, ReplayState
from stores.replay.replay_tables import Replay
from stores.replay.replays import SERVER, Replays
from stores.replay.republish import TRANSPORT, Ruled, Way, direct, end_marks, partition_in
from stores.segments.day_marks import Partitioned
from stores.segments.errors import DestinationDown, PublishRefused, StaleOwner
from stores.segments.message import OutboundBatch, OutboundMessage, Pair, Place
from stores.segments.transports.transport import Outbound
from topology.model.ending import end_tasks
from topology.model.printable import printable

logger = logging.getLogger(__name__)
PAGE = 1_000
"""Messages of a page, at most."""
_RETRY = 2.0
_REASON = 350


class _Output(NamedTuple):
    """What is published, and the message that it came of."""

    message: OutboundMessage
    source: CapturedMessage


class Stopped(ReplayError):
    """The replay cannot go on as it is: somebody has to decide, and resume it."""


@dataclass
class _Run:
    """How far a run is.

    replay: as it was when SQL was last asked. position: the last id that is published. done:
    messages up to there. gone: how many were when all of the set was last seen to be there.
    """

    replay: Replay
    position: int
    done: int
    gone: int | None = None


class Replaying:
    """Runs one replay until it ends or is paused.

    Args:
        replays: where it is.
        id: which.
        outbound: for this replay alone.
        ways: way → what it makes of a message, besides "direct".
        holder: who, for whoever asks.
        lease_seconds: after which another server takes it over from one that is dead.
        page: messages of a page, at most.
    """

    def __init__(
        self,
        replays: Replays,
        id: str,
        outbound: Outbound,
        ways: Mapping[str, Way] | None = None,
        *,
        holder: str = "replay server",
        lease_seconds: float = 10.0,
        page: int = PAGE,
    ) -> None:
        self._replays, self.id, self._outbound = replays, id, outbound
        self._ways: Mapping[str, Way] = {"direct": direct, **(ways or {})}
        self._lease = Lease(replays.engine, f"replay/{id}", holder, lease_seconds)
        self._page_size, self._epoch = page, 0
        self._reading = ThreadPoolExecutor(1, "replay")
        self._rules: Ruled | None = None
        self._partitions: dict[str, int] = {}
        self._sources: dict[str, int] = {}

    async def run(self) -> None:
        """Publish until the replay ends, is paused, or another server has it.

        What is away is tried again. A fault ends the run and leaves the replay running.
        """
        await asyncio.to_thread(self._lease.make)
        epoch = await asyncio.to_thread(self._lease.acquire)
        if epoch is None:
            return
        self._epoch = epoch
        keeping = asyncio.create_task(self._keep())
        try:
            while await self._try():
                await self._idle(_RETRY)
        except (LeaseLost, StaleOwner) as error:
            logger.warning("replay %s: %s", self.id, said(error))
        finally:
            await end_tasks(keeping)
            if self._rules is not None:
                self._rules.end(self.id)
                self._rules = None
            await self._outbound.stop()
            with suppress(SQLAlchemyError):
                await asyncio.to_thread(self._lease.release, self._epoch)

    async def _keep(self) -> None:
        """Renew the lease while a page, or what comes before the first one, takes long."""
        while True:
            await asyncio.sleep(self._lease.seconds / 4)
            with suppress(LeaseLost, SQLAlchemyError):  # the run learns of it
                await asyncio.to_thread(self._lease.renew, self._epoch)

    async def _try(self) -> bool:
        """Run; returns whether to try again."""
        try:
            await self._run()
        except (DestinationDown, SQLAlchemyError, Busy) as error:
            logger.warning("replay %s is tried again: %s", self.id, said(error))
            await self._outbound.stop()
            return True
        except Stopped as error:
            await self._end(ReplayAction.STOP, str(error))
        except ReplayError as error:
            await self._end(ReplayAction.FAIL, str(error))
        return False

    async def _end(self, action: ReplayAction, reason: str) -> None:
        logger.warning("replay %s: %s", self.id, printable(reason, _REASON))
        try:
            await self._act(action, printable(reason, _REASON))
        except WrongState as error:  # somebody paused or cancelled it meanwhile
            logger.info("%s", error)

    async def _run(self) -> None:
        self._partitions.clear()
        known = await self._outbound.start(Pair(f"replay/{self.id}", TRANSPORT))
        replay = await asyncio.to_thread(self._replays.get, self.id)
        run = _Run(replay, replay.position, replay.done)
        if known is not None and known.offset > run.position:
            run.done, run.position = known
        await self._moved(run)
        await self._check_targets(run.replay)
        way = self._way(run.replay)
        if self._rules is None and isinstance(way, Ruled):
            rules = await asyncio.to_thread(way.begin, self.id)
            await asyncio.to_thread(self._replays.keep_rules, self.id, rules)
            self._rules = way
        while run.replay.state is ReplayState.RUNNING:
            began = time.monotonic()
            page = await asyncio.get_running_loop().run_in_executor(self._reading, self._next, run)
            await self._publish(run, page)
            if page.after is None:
                break
            if run.replay.rate is not None:
                await self._idle(began + len(page.messages) / run.replay.rate - time.monotonic())
        if run.replay.state is ReplayState.RUNNING:
            await self._finish(run)

    def _way(self, replay: Replay) -> Way:
        if (way := self._ways.get(replay.way)) is None:
            raise Stopped(
                f"this server has no rules for the way {replay.way!r}: name [server] router in the "
                "file of every server, and resume"
            )
        return way

    def _next(self, run: _Run) -> Page:
        """The next page of the set; it is known that all that is left of the set is there."""
        left = replace(run.replay.query, after=run.position)
        rate = run.replay.rate
        size = self._page_size if rate is None else max(1, min(self._page_size, int(rate / 4)))
        page = self._replays.log.page(left, size)
        gone = self._replays.log.messages_gone(run.replay.query)
        if gone != run.gone:
            there = run.done + self._replays.log.count(left)
            if there != run.replay.count:
                raise self._gone(run, run.replay.count - there)
            run.gone = gone
        return page

    def _gone(self, run: _Run, missing: int) -> ReplayError:
        left = replace(run.replay.query, after=run.position)
        found = [str(each) for each in self._replays.log.holes(left)]
        new = [each for each in found if each not in run.replay.holes]
        return ReplayError(
            f"{missing} of its {run.replay.count} messages are gone since it was previewed: "
            f"retention took {'; '.join(new[:5]) or 'them'}; preview what is left as a new replay"
        )

    async def _publish(self, run: _Run, page: Page) -> None:
        replay = run.replay
        outputs = await asyncio.to_thread(self._outputs, replay, page)
        if replay.way == "direct":
            outputs = [await self._placed(replay, each) for each in outputs]
        done = run.done + len(page.messages)
        last = page.messages[-1].id if page.messages else run.position
        await self._send(run, outputs, Place(done, last))

    def _outputs(self, replay: Replay, page: Page) -> list[_Output]:
        way = self._way(replay)
        return [
            _Output(each, message) for message in page.messages for each in way(replay, message)
        ]

    async def _finish(self, run: _Run) -> None:
        replay, through = run.replay, run.replay.query.through or 0
        if replay.ends:
            # Behind the last page, and known by a place that no message has.
            marks = [_Output(each, _NOBODY) for each in end_marks(replay)]
            await self._send(run, marks, Place(run.done, through + 1))
        if run.replay.state is ReplayState.RUNNING:
            await self._act(ReplayAction.FINISH, f"{run.done} of {replay.count} messages")

    async def _send(self, run: _Run, outputs: Sequence[_Output], behind: Place) -> None:
        pair = Pair(f"replay/{self.id}", TRANSPORT)
        await asyncio.to_thread(self._lease.renew, self._epoch)
        left = list(outputs)
        while behind.offset > run.position:  # else there is nothing new
            batch = OutboundBatch(pair, tuple(each.message for each in left), behind)
            try:
                await self._outbound.publish(batch)
                break
            except PublishRefused as refused:
                await self._refused(run.replay, left.pop(refused.index), refused.reason)
        run.done, run.position = behind
        await self._moved(run)

    async def _refused(self, replay: Replay, output: _Output, reason: str) -> None:
        source, target = output.source, output.message.destination
        what = f"message {source.id} ({source.position}) is refused by {target}: {reason}"
        if replay.on_refused != "skip":
            raise Stopped(f"{what}; let {target} take it, or resume with skip")
        await asyncio.to_thread(self._replays.leave_out, self.id, source.id, reason)
        logger.warning("replay %s: %s; it is left out", self.id, printable(what, _REASON))

    async def _check_targets(self, replay: Replay) -> None:
        for target in {*replay.targets.values(), *replay.ends}:
            if await self._count(target) == 0:
                raise Stopped(f"there is no topic {target}: make it, and resume")

    async def _placed(self, replay: Replay, output: _Output) -> _Output:
        message, source = output
        there = max(1, await self._count(message.destination))
        if replay.ends:  # a recovery's topics have the partitions of the consumer's
            return _Output(replace(message, partition=partition_in(source, there, there)), source)
        if source.topic not in self._sources:
            here = await self._count(source.topic)
            if here == 0:  # the topic is gone; what was captured of it tells
                positions = await asyncio.to_thread(self._replays.log.positions, source.topic)
                here = 1 + max(positions, default=0)
            # Else partitions that are added meanwhile move its keys.
            keep = partial(self._replays.keep_source, self.id, source.topic, here)
            self._sources[source.topic] = await asyncio.to_thread(keep)
        partition = partition_in(source, self._sources[source.topic], there)
        return _Output(replace(message, partition=partition), source)

    async def _count(self, topic: str) -> int:
        if not self._partitions.get(topic) and isinstance(self._outbound, Partitioned):
            self._partitions[topic] = len(await self._outbound.partition_numbers(topic))
        return self._partitions.get(topic, 1)

    async def _moved(self, run: _Run) -> None:
        check = partial(self._lease.check, epoch=self._epoch)
        run.replay = await asyncio.to_thread(
            self._replays.move, self.id, run.position, run.done, check
        )

    async def _act(self, action: ReplayAction, reason: str) -> None:
        check = partial(self._lease.check, epoch=self._epoch)
        act = partial(self._replays.act, check=check)
        await asyncio.to_thread(act, self.id, action, SERVER, reason)

    async def _idle(self, seconds: float) -> None:
        """Wait; the lease is held meanwhile, and a pause ends it."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            await asyncio.sleep(min(left, 0.5))
            if left > 0.5:
                await asyncio.to_thread(self._lease.renew, self._epoch)
                found = await asyncio.to_thread(self._replays.get, self.id)
                if found.state is not ReplayState.RUNNING:
                    return


_NOBODY = CapturedMessage("", 0, 0, None)
