"""Streams whose ids come close to one that no view knows: it may be misspelt."""

from collections.abc import Iterable
from difflib import get_close_matches
from functools import partial

from aiokafka import TopicPartition

from topology.declaration.lanes import split_lane
from topology.declaration.view import View
from topology.engine.state.rows import progress_key
from topology.faust.inspection.durable import DurableState
from topology.model.event import Message

RECENT = 20_000
"""Offsets at the end of each partition of a changelog in which ids are looked for."""
SHOWN, CUTOFF = 3, 0.7
FARTHEST = 2
"""Bytes by which an id may be longer or shorter."""


async def similar_streams(
    durable: DurableState, views: Iterable[View], stream: str
) -> tuple[str, ...]:
    """The ids that come closest, of the streams that views handled last; whatever their case."""
    known: dict[str, str] = {}
    size = len(progress_key(stream))

    def note(lanes: bool, record: Message) -> bool:
        key = record.key or b""
        if key[:1] == progress_key("") and record.value is not None:
            name = key[1:].decode("utf-8", "replace")
            name = split_lane(name)[0] if lanes else name
            if abs(len(progress_key(name)) - size) <= FARTHEST:
                known.setdefault(name.casefold(), name)
        return False

    # The views of a source know the same streams.
    for view in {each.of.name: each for each in views}.values():
        for number in range(view.of.partitions):
            changelog = TopicPartition(durable.app.engine.changelogs[view.name], number)
            of_view = partial(note, view.split is not None)
            await durable.end_of(changelog, of_view, most=RECENT)
    close = get_close_matches(stream.casefold(), known, n=SHOWN, cutoff=CUTOFF)
    return tuple(known[name] for name in close)
