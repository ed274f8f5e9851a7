"""Who leads a destination's paths: asked by producers, durable and fenced by Kafka transactions.

Every answer waits for a transaction that began after the question came: who was fenced meanwhile
answers nobody, so that no producer has a route, or a lease, of which the next leader knows nothing.
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import orjson
from aiokafka import AIOKafkaProducer

from stores.db.steady_clock import elapsed
from stores.units.errors import MemberUnavailable, RouteMoving, UnitError
from stores.units.kafka.path_rows import LEADER, path_key, path_value, restore_paths
from stores.units.kafka.records import handover_headers, key_of
from stores.units.kafka.topics import ROW_BYTES, paths_topic
from stores.units.paths.watch import MemberWatch
from stores.units.queue import Handover
from stores.units.routing import Moving, PathMap
from topology.model.ending import end_tasks, wait_for_stop
from topology.model.printable import printable

logger = logging.getLogger(__name__)

PRODUCERS = 10_000
"""Producers of whom it is known what they asked last."""
PATIENCE = 0.25
"""Of the lease, for which Kafka may take to answer the leader."""
ASKED = 10.0
"""Seconds after which nobody waits for an answer any more."""
QUESTIONS = 2_000
"""That may wait for an answer."""
ENDED = MemberUnavailable("the path service that was asked does not lead any more; ask again")

Answer = dict[str, Any]
Question = Callable[[PathMap, float], Answer]
"""What is asked of the map, at a time by `elapsed`. Raises UnitError."""


class PathLeader:
    """Leads one destination until it is fenced or cancelled.

    Args:
        destination: the topic.
        kafka: arguments of aiokafka's clients.
        lease: seconds for which a producer's routes hold.
        url: under which producers reach this process.
    """

    def __init__(self, destination: str, kafka: dict[str, Any], lease: float, url: str) -> None:
        self._destination, self._kafka, self._lease, self._url = destination, kafka, lease, url
        self.paths = PathMap((), lease)
        self._asked: list[tuple[Question, asyncio.Future[Answer]]] = []
        self._wake, self._ended = asyncio.Event(), False
        self._numbers: dict[str, int] = {}
        self._probes: dict[tuple[str, int], tuple[int, int]] = {}
        self._written, self._looked = 0.0, True
        self._longest = self._longest_until = 0.0
        # Who waits for a member that went down must not outwait the leases of producers.
        patience = {"request_timeout_ms": max(3_000, round(lease * 1000 * PATIENCE))}
        self._producer = AIOKafkaProducer(
            **{**patience, "retry_backoff_ms": 10, "metadata_max_age_ms": 5_000, **kafka},
            transactional_id=f"units/{destination}/.paths",
            max_request_size=ROW_BYTES,
        )
        self._watch = MemberWatch(
            destination, {**patience, **kafka}, self._producer, self.paths, self._look
        )

    async def run(self) -> None:
        """Lead: fence the former leader, restore what is durable, answer. Raises KafkaError."""
        following: asyncio.Task[None] | None = None
        try:
            await self._producer.start()  # what the former leader has not committed it never will
            await self._watch.look()
            rows, former = await restore_paths(self._kafka, self._destination)
            # Who has not heard of a partition yet is not told that it is gone: none ever goes.
            for member in {entry.member for entry in rows.values()}:
                self.paths.add_member(member)
                self.paths.set_reachable(member, int(member) in self._watch.up)
            # Producers may have leases of the former leader, which may have been longer.
            now = elapsed() + max(0.0, former.lease - self._lease)
            self._longest, self._longest_until = former.lease, elapsed() + former.lease
            self.paths.restore(rows, now, former.epoch)
            following = asyncio.create_task(self._watch.follow())
            logger.info("paths of %s: leading, %d paths", self._destination, len(rows))
            while not following.done():
                await self._step()
                if not self._asked:
                    try:
                        async with asyncio.timeout(self._lease / 5):
                            await self._wake.wait()
                    except TimeoutError:
                        pass
                self._wake.clear()
            following.result()
        finally:
            self._ended = True
            for _, answer in self._asked:
                _refuse(answer, ENDED)
            if following is not None:
                await end_tasks(following)
            await wait_for_stop(self._producer.stop())

    def _look(self) -> None:
        """The members were looked at."""
        self._looked = False
        self._wake.set()

    async def ask(self, question: Question) -> Answer:
        """Ask the map; what changed by that is durable when this returns. Raises UnitError."""
        if self._ended:
            raise ENDED
        if len(self._asked) >= QUESTIONS:
            raise MemberUnavailable("too many questions wait for the path service; ask again")
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        asked = question, answer
        self._asked.append(asked)
        self._wake.set()
        try:
            async with asyncio.timeout(ASKED):
                return await answer
        except TimeoutError:
            raise MemberUnavailable("the path service waits for Kafka; ask again") from None
        finally:
            if asked in self._asked:  # its asker has gone
                self._asked.remove(asked)

    def renew(
        self, producer: str, number: int, leave: list[str], ask: list[str], close: bool
    ) -> Question:
        """What a producer says now and then. number: counts up, as a late one must not count."""

        def question(paths: PathMap, now: float) -> Answer:
            if number <= self._numbers.get(producer, -1):
                raise UnitError("this was overtaken by a later question; ask anew")
            self._numbers.pop(producer, None)
            self._numbers[producer] = number
            if len(self._numbers) > PRODUCERS:
                del self._numbers[next(iter(self._numbers))]
            held = paths.renew(producer, now)
            for unit in leave:
                paths.leave(unit, producer)
            if close:
                paths.close(producer)
            routes, refused = dict[str, Any](), dict[str, Any]()
            for unit in ask:
                try:
                    route = paths.route(unit, producer, now)
                    routes[unit] = int(route.member), route.epoch
                except UnitError as error:
                    refused[unit] = isinstance(error, RouteMoving), str(error)
            return {"held": held, "lease": self._lease, "routes": routes, "refused": refused,
                    "drop": paths.dropped_by(producer)}  # fmt: skip

        return question

    def move(self, unit: str, to: int) -> Question:
        """Begin to move a unit; one that is parked would fill the memory of its new owner."""

        def question(paths: PathMap, now: float) -> Answer:
            if unit in self._watch.progress.kept():
                raise UnitError(
                    f"unit {printable(unit)} is parked or paused for a subscriber: redrive or"
                    " resume it, then move it"
                )
            return asdict(paths.move(unit, str(to), now))

        return question

    async def _step(self) -> None:
        """Answer what was asked, by one transaction; and move what can be moved."""
        asked, self._asked = self._asked, []
        now, answers = elapsed(), list[tuple[asyncio.Future[Answer], Answer | UnitError]]()
        paths = self.paths
        try:
            for question, future in asked:
                try:
                    answers.append((future, question(paths, now)))
                except UnitError as error:
                    answers.append((future, error))
            paths.expire(now)
            # Members are sent to right after they answered: one that is down would hold all up.
            looked, self._looked = not self._looked, True
            fenced = [
                each
                for each in (paths.fenced(now) if looked else ())
                if {int(each.source), int(each.target)} <= self._watch.up
            ]
            for move in fenced:
                paths.drained(move.what, move.epoch, now)
            unused = self._unused() if looked and self._watch.complete else {}
            rows = paths.take_rows()
            if not (rows or answers or unused or now - self._written > self._lease):
                return
            self._written = now
            await self._producer.begin_transaction()
            for move in fenced:
                await self._hand_over(move)
            sent = []
            for unit, entry in rows.items():
                sent.append(await self._send(path_key(unit), path_value(entry)))
            # The next leader waits for the former one's leases, too, while there may be some.
            lease = self._lease if now > self._longest_until else max(self._lease, self._longest)
            leading = {"url": self._url, "epoch": paths.epoch, "lease": lease}
            sent.append(await self._send(LEADER, orjson.dumps(leading)))
            for member, units in unused.items():
                offset = (await (await self._record(member, None, ""))).offset
                self._probes.update(dict.fromkeys(units, (member, offset)))
            await asyncio.gather(*sent)
            await self._producer.commit_transaction()
        except BaseException:
            for _, future in asked:
                _refuse(future, ENDED)
            raise
        for future, answer in answers:
            if isinstance(answer, UnitError):
                _refuse(future, answer)
            elif not future.done():
                future.set_result(answer)
        for move in fenced:
            logger.info("paths of %s: unit %s has moved from member %s to %s", self._destination,
                        printable(move.what), move.source, move.target)  # fmt: skip

    async def _hand_over(self, move: Moving) -> None:
        """The records by which a unit leaves one member, and arrives at the other."""
        source, target = int(move.source), int(move.target)
        leaves = Handover("leaves", move.epoch, target)
        await (await self._record(source, leaves, move.what))
        arrives = Handover("arrives", move.epoch, source)
        await (await self._record(target, arrives, move.what))

    def _unused(self) -> dict[int, list[tuple[str, int]]]:
        """Delete the paths of units whose last message is gone; member → units to ask about.

        For these a record is written: a subscriber that is behind it has nothing left of them.
        """
        asked, kept = dict[int, list[tuple[str, int]]](), self._watch.progress.kept()
        unused = {(unit, route.epoch): int(route.member) for unit, route in self.paths.unused()}
        self._probes = {key: at for key, at in self._probes.items() if key in unused}
        for (unit, epoch), member in unused.items():
            if (probe := self._probes.get((unit, epoch))) is None:
                if member in self._watch.up:
                    asked.setdefault(member, []).append((unit, epoch))
            elif unit not in kept and self._watch.progress.passed(*probe):
                self.paths.emptied(unit, epoch)
        return asked

    async def _send(self, key: bytes, value: bytes | None) -> "asyncio.Future[Any]":
        topic = paths_topic(self._destination)
        sent: asyncio.Future[Any] = await self._producer.send(topic, value, key, 0)
        return sent

    async def _record(
        self, member: int, handover: Handover | None, unit: str
    ) -> "asyncio.Future[Any]":
        """A record of a member: of a unit that moves, or None: one that says nothing."""
        headers = handover_headers(unit or ".", handover or Handover("handed", 0, member))
        sent: asyncio.Future[Any] = await self._producer.send(
            self._destination, b"", key_of(unit or "."), member, headers=headers
        )
        return sent


def _refuse(answer: "asyncio.Future[Answer]", error: UnitError) -> None:
    if not answer.done():
        answer.set_exception(error)
