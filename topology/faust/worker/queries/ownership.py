"""Whose partition a stream is in, and how far its view is there."""

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from aiokafka import TopicPartition
from aiokafka.errors import KafkaError
from mode import get_logger

from stores.view_state import ViewTable
from topology.declaration.lanes import split_lane
from topology.declaration.view import View
from topology.engine.partition import PartitionView, StreamStep
from topology.engine.state.rows import COUNTS, progress_key
from topology.faust.worker.engine import Engine
from topology.faust.worker.queries.question import Question
from topology.faust.worker.runner import Runner
from topology.faust.worker.stream_partition import StreamPartition
from topology.model.counts import position_of

logger = get_logger(__name__)

ANSWER = 2.0
"""Seconds that the broker has for an answer."""
EVERY = 0.02
"""Seconds between two looks whether a view is far enough."""


class NotHere(Exception):
    """The partition is another worker's.

    owner: its address; empty where nobody is known. not_in: bits of the partitions that are known
    not to have the stream, where any may.
    """

    def __init__(self, partition: int, owner: str, not_in: int = 0) -> None:
        super().__init__(f"partition {partition} is not this worker's")
        self.owner, self.not_in = owner, not_in


class NotYet(Exception):
    """The partition is this worker's, and it cannot answer for now."""


@dataclass(frozen=True, slots=True)
class Place:
    """A view in a partition that this worker runs."""

    view: View
    partition: TopicPartition
    runner: Runner
    table: ViewTable

    @property
    def halted(self) -> str | None:
        """Why the view is halted there, None if it goes on."""
        view = views_of(self.runner).get(self.view.name)
        return None if view is None else view.task.halted

    @property
    def offset(self) -> int:
        """The input offset that the rows are as of."""
        found = position_of(self.table.get(COUNTS))
        if self.runner.view:  # it reads apart: its own rows say how far it is
            return found or 0
        return max(found or 0, self.runner.loop.committed)


def views_of(runner: Runner) -> Mapping[str, PartitionView]:
    """The views that a runner runs."""
    return runner.step.views if isinstance(runner.step, StreamStep) else {}


class Ownership:
    """Finds the partitions of streams, and asks the broker about them.

    Args:
        app: the worker's app.
        engine: its engine.
    """

    def __init__(self, app: Any, engine: Engine) -> None:
        self._app, self._engine = app, engine

    async def place(self, question: Question) -> Place:
        """Where a stream's rows are; of a stream that nobody knows, a place of its view.

        Args:
            question: about it. In a view with lanes the partition is that of the lane's stream.

        Raises:
            NotHere: on another worker.
            NotYet: it starts, starts again, or is being restored.
        """
        view, partitions = question.view, self._engine.context.partitions
        stream = question.stream if view.split is None else split_lane(question.stream)[0]
        count = await partitions.count(view.of.by_stream, view.of.partitions)
        likely = partitions.of(stream.encode(), count)
        if count == 1 or not view.of.keyed or view.of.fed_by:
            return self._place(view, likely)
        # Who keyed the records of a keyed source, and how, is not known here.
        places: list[Place] = []
        elsewhere: list[int] = []
        later: NotYet | None = None
        for number in sorted(range(count), key=lambda each: each != likely):
            try:
                place = self._place(view, number)
            except NotHere:
                if not question.not_in >> number & 1:
                    elsewhere.append(number)
            except NotYet as error:
                later = error
            else:
                if place.table.get(progress_key(question.stream)) is not None:
                    return place
                places.append(place)
        if elsewhere:
            if places and not await self.certain():
                raise NotYet("the group does not confirm that its partitions are this worker's")
            not_in = sum(1 << each.partition.partition for each in places) | question.not_in
            raise NotHere(elsewhere[0], self._owner(view, elsewhere[0]), not_in)
        if later is not None or not places:
            raise later or NotYet("its partitions are moving")
        if question.max_staleness is not None:
            raise NotYet(
                f"no partition of {view.of.by_stream} is known to have the stream: others key its "
                "records, so that max_staleness is about one that has it; leave it out"
            )
        return places[0]

    def _place(self, view: View, number: int) -> Place:
        """The view in a partition. Raises NotHere and NotYet."""
        engine, at = self._engine, TopicPartition(view.of.by_stream, number)
        found = next((each for each in engine.running if each.source == at), None)
        if not isinstance(found, StreamPartition):
            raise NotHere(number, self._owner(view, number))
        table = engine.tables.table(view.name, number)
        changelog = TopicPartition(engine.changelogs[view.name], number)
        if restoring := engine.tables.restoring.get(changelog):
            have, end = restoring[0].offset or 0, restoring[1]
            raise NotYet(f"its table is being restored: at offset {have} of {end} of its changelog")
        runner = next((r for r in found.runners.values() if view.name in views_of(r)), None)
        if not found.is_running or table is None or runner is None:
            raise NotYet("the partition starts, or starts again")
        return Place(view, at, runner, table)

    def still(self, place: Place) -> bool:
        """Whether this worker runs what it ran before."""
        return any(
            each.source == place.partition
            and each.is_running
            and place.runner in each.runners.values()
            for each in self._engine.running
        )

    async def certain(self) -> bool:
        """Whether the group's coordinator confirms now that this worker is a member of it, as of
        the assignment that it has: until then no other worker has its partitions."""
        try:
            return await asyncio.wait_for(self._app.consumer.is_member(), ANSWER)
        except (KafkaError, OSError, TimeoutError) as error:
            logger.info("the group's coordinator does not answer: %r", error)
            return False

    async def end(self, partition: TopicPartition) -> int | None:
        """The offset behind all that is in an input partition; None if nobody says."""
        try:
            barriers = self._engine.context.barriers
            return (await asyncio.wait_for(barriers.ends([partition]), ANSWER))[partition]
        except (KafkaError, OSError, TimeoutError) as error:
            logger.info("the broker does not say where %s ends: %r", partition, error)
            return None

    async def catch_up(self, place: Place, seconds: float) -> float | None:
        """Wait until all that has arrived by now is in a view's rows.

        Args:
            place: the view.
            seconds: to wait.

        Returns:
            The seconds that it took; None if it was not in time.
        """
        began = time.monotonic()

        async def reach() -> float:
            barriers = self._engine.context.barriers
            _, end = await barriers.begin(place.view.of, place.partition.partition)
            while place.offset < end:
                await asyncio.sleep(EVERY)
            return time.monotonic() - began

        try:
            return await asyncio.wait_for(reach(), seconds)
        except (KafkaError, OSError, TimeoutError):
            return None

    def _owner(self, view: View, partition: int) -> str:
        """The address of the worker that has a view's partition, as the group's leader told all."""
        for url, topics in self._app.assignor.changelog_distribution.items():
            if partition in topics.get(self._engine.changelogs[view.name], ()):
                return str(url)
        return ""
