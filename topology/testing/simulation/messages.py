"""What a simulation lets arrive: the user's messages, some late, some twice, some never."""

from collections.abc import Callable, Iterable, Sequence
from random import Random
from typing import Any, NamedTuple

import orjson

from topology.declaration.source import Source
from topology.declaration.topology import Topology
from topology.engine.commit_unit import Out
from topology.inspectors import Inspector
from topology.model.errors import Malformed
from topology.model.event import Record


class Sent(NamedTuple):
    """A message that a producer sends.

    Attributes:
        topic: where it is sent to.
        value: bytes as they are, None, or anything else, which is sent as JSON.
        key: the record key; unless given, the stream where the source is keyed, else none.
        headers: (name, value) of each header.
    """

    topic: str
    value: Any
    key: str | bytes | None = None
    headers: tuple[tuple[str, bytes], ...] = ()


Messages = Sequence[Any] | Callable[[int], Iterable[Any]]
"""`Sent`s, or tuples of the same shape such as (topic, value), in the order they were sent; or a
function that makes them from a seed."""


Arrivals = Sequence[tuple[str, Out]]
"""(topic, record), in order."""


def written(topology: Topology, messages: Iterable[Any]) -> Arrivals:
    """(topic, record) of messages as a user gives them. Raises KeyError for an unknown topic."""
    sources = {topic: source for source in topology.sources.values() for topic in source.topics}
    found: list[tuple[str, Out]] = []
    for at, item in enumerate(messages):
        topic, value, key, headers = Sent(*item)
        source = sources.get(topic)
        if source is None:
            known = ", ".join(map(repr, sources))
            raise KeyError(f"topic {topic!r} is no source of {topology.name!r}; it has {known}")
        if value is not None and not isinstance(value, bytes):
            value = orjson.dumps(value)
        if isinstance(key, str):
            key = key.encode()
        if key is None and source.keyed:
            key = _stream(source, Record(topic, 0, at, None, value, headers))
        found.append((topic, (key, value, at, list(headers))))
    return found


def _stream(source: Source, message: Record) -> bytes | None:
    try:
        found = source.inspect(message)
    except Malformed:
        return None
    return None if found is None else found[0].encode()


class Delivery(NamedTuple):
    """How likely it is that a message arrives late, twice or never.

    Attributes:
        late: the share of messages that arrive late, from 0 to 1.
        twice: the share that arrive twice.
        never: the share that never arrive.
        reach: the most places by which a message is late.
    """

    late: float = 0.2
    twice: float = 0.1
    never: float = 0.02
    reach: int = 12

    def arrange(self, sent: Arrivals, chance: Random) -> Arrivals:
        """Return the messages in order of arrival.

        Args:
            sent: the messages in the order in which they were sent.
            chance: decides what happens to each.
        """
        random, (late, twice, never, reach) = chance.random, self
        arriving: list[tuple[float, int]] = []
        for at in range(len(sent)):
            fate = random() - never
            if fate < 0:
                continue
            arriving.append((at + random() * reach if fate < late else at, at))
            if random() < twice:
                arriving.append((at + random() * reach, at))
        arriving.sort()
        return [sent[at] for _, at in arriving]


def numbered(topology: Topology, events: int = 8, streams: int = 2) -> Callable[[int], list[Sent]]:
    """Make up messages that the inspectors of a topology's sources understand.

    Messages of a linked source name the one before. Those of a monotonic source leave numbers out.

    Args:
        topology: whose sources the messages are for.
        events: how many messages a seed makes.
        streams: how many streams they belong to.

    Returns:
        A function: seed → messages, for `Simulator(messages=…)`.

    Raises:
        ValueError: an inspector does not say what a body looks like.
    """
    sources = list(topology.sources.values())
    kinds = {source.name: _kinds(topology, source) for source in sources}

    def messages(seed: int) -> list[Sent]:
        random = Random(seed).random
        last: dict[tuple[str, str], int] = {}
        made: list[Sent] = []
        for _ in range(events):
            source = sources[int(random() * len(sources))]
            inspector, order = source.inspector, source.sequence
            assert isinstance(inspector, Inspector)
            stream = f"s{int(random() * streams)}"
            before = last.get((source.name, stream))
            at = _next(source, before, random)
            last[source.name, stream] = at
            body: dict[str, Any] = {}
            if order.previous is not None:
                _put(body, str(order.previous), before)
            for path in inspector.stream:
                _put(body, str(path), stream)
            _put(body, str(inspector.sequence), at)
            if inspector.kind is not None:
                known = kinds[source.name]
                _put(body, str(inspector.kind), known[int(random() * len(known))])
            made.append(Sent(source.topics[int(random() * len(source.topics))], body))
        return made

    return messages


def _next(source: Source, before: int | None, random: Callable[[], float]) -> int:
    """The sequence behind `before`."""
    order = source.sequence
    if order.counts:
        return order.start if before is None else before + order.step
    return (before or 0) + 1 + int(random() * 3)


def _kinds(topology: Topology, source: Source) -> list[str]:
    """The kinds that the source's views accept, and one more."""
    inspector = source.inspector
    if isinstance(inspector, Inspector):
        named = [*inspector.stream, inspector.sequence, inspector.kind]
        fields = [*named, source.sequence.previous]
        if all(field is None or (isinstance(field, str) and "[" not in field) for field in fields):
            accepts = [view.accepts or () for view in topology.views_of(source)]
            return ["other", *sorted({kind for kinds in accepts for kind in kinds})]
    raise ValueError(
        f"source {source.name!r}: its inspector does not say what a body looks like; "
        "give messages of your own"
    )


def _put(body: dict[str, Any], path: str, value: Any) -> None:
    *folders, last = path.split(".")
    for folder in folders:
        body = body.setdefault(folder, {})
    body[last] = value
