"""Note how far an audit goes: a moment at which states and the group's offsets belong together."""

import asyncio
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from aiokafka import AIOKafkaConsumer, TopicPartition

from topology.declaration.ordered_stage import stage_of
from topology.declaration.topology import Topology
from topology.diagnostics.audit import (
    AuditSnapshot,
)
from topology.faust.inspection.cannot_answer import CannotAnswer
from topology.faust.kafka.clients import (
    missing_topics,
    partitions_of,
)
from topology.faust.kafka.offsets import Committed, Offsets
from topology.faust.kafka.open_transactions import held_back

PAUSE = 0.25
"""Seconds between two looks."""


class CannotAudit(CannotAnswer):
    """Why there is nothing to audit, or no way to."""


class SnapshotTaker:
    """Notes where everything is."""

    def __init__(self, app: Any, consumer: AIOKafkaConsumer) -> None:
        self._app = app
        self._consumer = consumer
        self.partitions: dict[str, int] = {}
        """Topic → how many partitions it has."""

    @classmethod
    async def begin(cls, app: Any, consumer: AIOKafkaConsumer) -> "SnapshotTaker":
        look, engine = cls(app, consumer), app.engine
        topology: Topology = engine.topology
        changelogs = set(engine.changelogs.values())
        missing = set(await missing_topics(app, [*topics_of(topology), *changelogs]))
        for source in topology.sources.values():
            for topic in {*source.topics, source.by_stream} & missing:
                raise CannotAudit(
                    f"topic {topic!r} does not exist: no worker of this topology has run here yet"
                )
        if changelogs and changelogs <= missing:
            raise CannotAudit(
                f"topic {min(changelogs)!r} does not exist: no worker of this topology has run "
                "here yet"
            )
        for topic in (*topics_of(topology), *engine.changelogs.values()):
            if topic not in missing:
                look.partitions[topic] = len(await partitions_of(consumer, topic))
        return look

    async def settle(self, patience: float) -> tuple[AuditSnapshot, Mapping[TopicPartition, int]]:
        """A cut at which the states and the group's offsets belong together, and the changelogs'
        ends. It is exact if nothing moved at all while it was noted.

        Raises CannotAudit where a partition is never at rest for a moment.
        """
        app, consumer, engine = self._app, self._consumer, self._app.engine
        topology: Topology = engine.topology
        sources = topology.sources.values()
        inputs = self._all(t for source in sources for t in {*source.topics, source.by_stream})
        others = self._all(topics_of(topology))
        # More may arrive: what is not read yet is not audited.
        still = others - self._all(t for source in sources for t in source.topics)
        still |= self._all(engine.changelogs.values())
        found = (stage_of(view) for view in topology.views.values())
        stages = self._all(engine.changelogs[stage.name] for stage in found if stage is not None)
        offsets, until = Offsets(app, app.conf.id), time.monotonic() + patience
        committed: dict[TopicPartition, Committed | None] = {}
        rests: dict[TopicPartition, int] = {}
        before: _Moment | None = None
        while True:
            now = _Moment(await offsets.committed(inputs), await consumer.end_offsets(list(still)))
            # A partition is at rest if neither its offset nor its views' changelogs have moved.
            for tp in inputs:
                changelogs = self._changelogs(tp)
                if now.same(before, tp, changelogs):
                    committed[tp] = now.committed.get(tp)
                    rests.update({each: now.ends[each] for each in changelogs})
            # What the second stages of views count is in their own changelogs.
            for tp in stages:
                if before is not None and now.ends[tp] == before.ends[tp]:
                    rests[tp] = now.ends[tp]
            settled = now == before
            if settled or (time.monotonic() > until and committed.keys() == inputs):
                break
            if time.monotonic() > until + patience:
                raise CannotAudit(
                    "some partitions commit all the time, so that no state and offset of them "
                    "belong together; audit when there is less traffic, or halt the views"
                )
            before = now
            await asyncio.sleep(PAUSE)
        firsts = await consumer.beginning_offsets(list(others))
        ends = await consumer.end_offsets(list(others))
        held = await held_back(app, consumer, inputs)
        snapshot = AuditSnapshot(
            {tp: (at.offset, at.taken) for tp, at in committed.items() if at is not None},
            {tp: first for tp, first in firsts.items() if first},
            ends,
            once=engine.settings.guarantee == "exactly_once",
            exact=settled and all(ends[tp] == end for tp, end in now.ends.items() if tp in ends),
            held={tp: each.end - ends[tp] for tp, each in held.items()},
        )
        return snapshot, rests

    def _all(self, topics: Iterable[str]) -> set[TopicPartition]:
        return {
            TopicPartition(topic, number)
            for topic in topics
            for number in range(self.partitions.get(topic, 0))
        }

    def _changelogs(self, tp: TopicPartition) -> list[TopicPartition]:
        engine = self._app.engine
        return [
            TopicPartition(engine.changelogs[view.name], tp.partition)
            for view in engine.topology.views.values()
            if view.of.by_stream == tp.topic
            and tp.partition < self.partitions.get(engine.changelogs[view.name], 0)
        ]


@dataclass(frozen=True, slots=True)
class _Moment:
    """The group's offsets and the ends of topics, looked at one after the other."""

    committed: Mapping[TopicPartition, Committed]
    ends: Mapping[TopicPartition, int]

    def same(
        self, before: "_Moment | None", tp: TopicPartition, changelogs: Iterable[TopicPartition]
    ) -> bool:
        """Whether an input partition and its views' changelogs are as they were."""
        if before is None or self.committed.get(tp) != before.committed.get(tp):
            return False
        return all(self.ends[each] == before.ends[each] for each in changelogs)


def topics_of(topology: Topology) -> list[str]:
    """All topics of a topology but changelogs and commands."""
    found = {*topology.side_topics}
    for source in topology.sources.values():
        found |= {*source.topics, source.by_stream}
    for view in topology.views.values():
        found |= {view.output, view.redeliver_topic}
    return sorted(found)
