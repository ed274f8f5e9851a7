"""What a view reads beside its input: events that come again, and what operators tell it."""

import time
from collections.abc import Sequence

from aiokafka import TopicPartition

from topology.event import Message
from topology.faust.reader import Reader
from topology.on_full import Redeliver
from topology.redelivery import due, not_before
from topology.view_task import ViewTask

EVERY = 0.1
"""Seconds between two looks at the topics."""


class Beside:
    """The view's partition of its redelivery and commands topics; what was read and not taken yet.

    The view's own positions say from where, so that what is taken is taken once.
    """

    def __init__(self, reader: Reader, task: ViewTask, partition: int) -> None:
        self._reader = reader
        view, positions = task.view, task.positions
        self._commands_topic = TopicPartition(view.commands_topic, partition)
        self._again_topic: TopicPartition | None = None
        self._commands: list[Message] = []
        self._again: list[Message] = []
        self._looked = 0.0
        reader.seek(self._commands_topic, positions.commands)
        if isinstance(view.full, Redeliver):
            self._again_topic = TopicPartition(view.redeliver_topic, partition)
            reader.seek(self._again_topic, positions.redelivered)

    async def look(self) -> None:
        """Read what there is, now and then."""
        now = time.monotonic()
        if now - self._looked < EVERY:
            return
        self._looked = now
        if not self._commands:
            self._commands = list(await self._reader.fetch(self._commands_topic, 0))
        if not self._again and self._again_topic is not None:
            self._again = list(await self._reader.fetch(self._again_topic, 0))

    @property
    def next(self) -> float:
        """When the next event is to come again (ms), infinite if none is known."""
        return not_before(self._again[0]) if self._again else float("inf")

    async def all_came(self, now: int) -> bool:
        """Whether all events that are to come again by `now` (ms) are read, and `again` has them.

        Only then may gaps be given up: behind a backlog, what is missing may be on its way back.
        """
        if self._again and not_before(self._again[-1]) > now:
            return True
        topic = self._again_topic
        return topic is None or await self._reader.at_end(topic)

    def again(self, now: int) -> Sequence[Message]:
        """Take the records of events that are to come again by `now` (ms)."""
        found = list(due(self._again, now))
        self._again = self._again[len(found) :]
        return found

    def commands(self) -> Sequence[Message]:
        """Take the records of commands."""
        found, self._commands = self._commands, []
        return found

    def stop(self) -> None:
        """Read no more."""
        self._reader.pause(self._commands_topic)
        if self._again_topic is not None:
            self._reader.pause(self._again_topic)
