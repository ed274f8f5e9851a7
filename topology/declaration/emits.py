"""Which topics a view may send messages to: not the topology's own, and not one for each event."""

from collections.abc import Callable, Collection, Iterable

from topology.model.errors import DeclarationError, HandlerError
from topology.model.names import checked_topic

TOPICS = 100
"""Topics that a view may name in one worker besides those that it declares."""

INTERNAL = "names that begin with '__' are of Kafka's own topics; name another topic"
"""Why a topic is refused. A broker takes records for none of its own, however often it is asked."""


class Emitting:
    """A view's topics, of all partitions of a worker together.

    declared: those that it says it sends to. limit: how many others it may name. own: whether a
    topic is one of the topology's own, and what for.
    """

    def __init__(
        self,
        view: str,
        declared: Iterable[str] = (),
        limit: int = TOPICS,
        own: Callable[[str], str | None] = lambda topic: None,
    ) -> None:
        self.view = view
        self.declared = frozenset(declared)
        self.limit = limit
        self.refused: dict[tuple[str, int], str] = {}
        """(stream, sequence) → why Kafka refused what that event sent; it fails once for that."""
        self.failing: dict[tuple[str, int], str] = {}
        """Those that failed for that, until this is committed."""
        self._own = own
        self._named: set[str] = set()
        self._alike = {alike(topic): topic for topic in self.declared}

    def and_also(self, topics: Iterable[str]) -> "Emitting":
        """The same of a view that sends to further topics. Raises DeclarationError."""
        return checked_emitting(self.view, (*self.declared, *topics), self.limit, self._own)

    def anew(self) -> "Emitting":
        """The same for another run, in which no topic is named yet."""
        return Emitting(self.view, self.declared, self.limit, self._own)

    def refusal(self, stream: str, sequence: int) -> str | None:
        """Why an event is to fail, once."""
        known = stream, sequence
        why = self.refused.pop(known, None)
        if why is not None:
            self.failing[known] = why
        return why

    def uncommitted(self) -> None:
        """What failed is handled again. Forgotten, it would be refused in turns with others."""
        self.refused.update(self.failing)
        self.failing.clear()

    def admit(self, topic: str, more: Collection[str] = ()) -> None:
        """A message is to be sent to a topic. Raises HandlerError if it must not be.

        more: the topics that the same event has named so far. They count from when it succeeds.
        """
        if topic in self._named or topic in more:
            return
        if (use := self._own(topic)) is not None:
            raise HandlerError(
                f"Emit(topic={topic!r}): it is {use} of the topology itself, which alone may write "
                "there; name another topic"
            )
        if internal(topic):
            raise HandlerError(f"Emit(topic={topic!r}): {INTERNAL}")
        # Kafka makes no topic whose name differs from another's in '.' and '_' only.
        others = {alike(each): each for each in more} | self._alike
        if (other := others.get(alike(topic), topic)) != topic:
            raise HandlerError(
                f"Emit(topic={topic!r}): the view sends to {other!r} already, and Kafka takes the "
                "two names for one; name another topic"
            )
        if topic not in self.declared and len({*self._named, *more} - self.declared) >= self.limit:
            raise HandlerError(
                f"Emit(topic={topic!r}): view {self.view!r} has named {self.limit} topics already, "
                "as if they came from data; put what differs into the key or a header, or declare "
                f"the topics: view(…, emits=[{topic!r}, …]), or how many there may be: "
                "view(…, topics=…)"
            )

    def name(self, topics: Iterable[str]) -> None:
        """An event that sends to topics, each admitted, has been handled."""
        for topic in topics:
            self._named.add(topic)
            self._alike[alike(topic)] = topic


def checked_emitting(
    view: str, emits: object, topics: object, own: Callable[[str], str | None]
) -> Emitting:
    """What a view declares of its topics. Raises DeclarationError."""
    if isinstance(emits, str) or not isinstance(emits, Iterable):
        raise DeclarationError(
            f"view {view!r}: emits={emits!r}; give a list of topics, as in ['payments']"
        )
    declared = [_declared(view, topic, own) for topic in emits]
    if isinstance(topics, bool) or not isinstance(topics, int) or topics < 0:
        raise DeclarationError(
            f"view {view!r}: topics={topics!r}; give how many topics the handler may name besides "
            "those in emits, 0 or more"
        )
    return Emitting(view, declared, topics, own)


def _declared(view: str, topic: object, own: Callable[[str], str | None]) -> str:
    try:
        name = checked_topic(topic)
    except DeclarationError as error:
        raise DeclarationError(f"view {view!r}: emits: {error}") from None
    if internal(name):
        raise DeclarationError(f"view {view!r}: emits: topic {name!r}: {INTERNAL}")
    if (use := own(name)) is not None:
        raise DeclarationError(
            f"view {view!r}: emits: topic {name!r} is {use} of the topology itself, which alone "
            "may write there; name another topic"
        )
    return name


def internal(topic: str) -> bool:
    """Whether a topic is one of Kafka's own."""
    return topic.startswith("__")


def alike(topic: str) -> str:
    """The same for all names that Kafka does not tell apart when it makes a topic."""
    return topic.replace(".", "_")
