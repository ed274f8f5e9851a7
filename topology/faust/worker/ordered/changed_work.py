"""A view that ran without workers is another one with them, and the other way round: refused."""

from typing import Any

from aiokafka import TopicPartition

from topology.faust.kafka.clients import connected_consumer, missing_topics
from topology.model.ending import wait_for_stop


async def check_same_work(app: Any) -> None:
    """Refuse a view whose name has run with workers and now has none, or the other way round.

    Raises:
        RuntimeError: there is one; what to do about it.
    """
    engine = app.engine
    views = engine.topology.views.values()
    # Each kind of view is known by a topic that the other one does not have.
    own = {view.arrivals_topic: view for view in views}
    changelogs = {engine.changelogs[view.name]: view for view in views}
    missing = set(await missing_topics(app, [*own, *changelogs]))
    without = [(t, v) for t, v in own.items() if v.work is None and t not in missing]
    with_workers = [
        (topic, view)
        for topic, view in changelogs.items()
        if view.work is not None and topic not in missing and view.arrivals_topic in missing
    ]
    if not (without or with_workers):
        return
    consumer = await connected_consumer(app)
    try:
        for topic, view in (*without, *with_workers):
            numbers = range(1 if topic in own else view.of.partitions)
            ends = await consumer.end_offsets([TopicPartition(topic, number) for number in numbers])
            if any(ends.values()):
                then, now = ("with", "has none") if topic in own else ("without", "has some now")
                raise RuntimeError(
                    f"view {view.name!r} ran {then} workers, and {now}: its streams' states, and "
                    "what has arrived, would be left behind. Give the view another name, which "
                    f"begins at the beginning, or delete topic {topic!r} if that is meant"
                )
    finally:
        await wait_for_stop(consumer.stop())
