"""The topics that a topology needs: what there is of each, and what is missing made."""

from typing import Any

from topology.faust.kafka.broker.shapes import Shape, shapes_of
from topology.faust.kafka.clients import create_topics
from topology.faust.worker.engine import Engine


async def topics(
    app: Any, *, create: bool = False, partitions: int = 0, retention: float = 0
) -> list[Shape]:
    """List the topics that a topology needs.

    Args:
        app: what `compile` made.
        create: make those that are missing.
        partitions: of source topics to be made; as many as the source declares unless given; those
            of keyed sources have that many always.
        retention: days that source topics to be made keep, -1 for ever; the broker's default unless
            given.

    Returns:
        What there is of each: `state` is `"there"`, `"missing"` or `"wrong"`, and `wrong` says why.

    Raises:
        KafkaError: the broker does not answer, or refuses it.
    """
    engine: Engine = app.engine
    wanted = [*engine.given(partitions, retention), *engine.needed(retention)]
    found = await shapes_of(app, wanted)
    missing = [shape.topic for shape in found if shape.partitions is None]
    if create and missing:
        await create_topics(app, missing, engine.settings.replication)
        found = await shapes_of(app, wanted)
    return found
