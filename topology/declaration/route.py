"""A stage that routes: messages of topics, by rules, to the topics of their destinations."""

from collections.abc import Mapping
from dataclasses import dataclass

from topology.declaration.graph import Graph
from topology.declaration.source_checks import check_partitions
from topology.model.closest import closest
from topology.model.errors import DeclarationError
from topology.model.names import checked_name, checked_topic
from topology.routing import RuleSet


@dataclass(frozen=True, slots=True, eq=False)
class Route:
    """Routes the messages of topics.

    Attributes:
        name: of the stage.
        rules: by which it routes; their sources are the topics that it reads.
        partitions: of those topics.
        to: destination → topic.
    """

    name: str
    rules: RuleSet
    partitions: int
    to: Mapping[str, str]

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics that it reads."""
        return tuple(self.rules.sources)


def destination_topics(what: str, rules: RuleSet, to: Mapping[str, str] | None) -> dict[str, str]:
    """Destination → topic, of all that rules have. Raises DeclarationError."""
    for destination in to or {}:
        if destination not in rules.destinations:
            near = closest(destination, rules.destinations)
            raise DeclarationError(f"{what}: to: no destination {destination!r}{near}")
    return {each: checked_topic((to or {}).get(each, each)) for each in rules.destinations}


class Routing(Graph):
    """A graph in which messages are routed."""

    def route(
        self,
        name: str,
        *,
        rules: RuleSet,
        partitions: int = 4,
        to: Mapping[str, str] | None = None,
    ) -> Route:
        """Route the messages of topics to the topics of their destinations, exactly once.

        Each message is read once, in the order of its partition. What it becomes keeps its key and
        headers, and names the version of the rules in the header `sequitur-rules`. Per partition
        that is read, and destination, the order stays; messages without a key go to one partition.
        A message that fails goes to the malformed topic with the reason.

        Args:
            name: of the stage, unique in the topology.
            rules: their sources are the topics that are read.
            partitions: of those topics.
            to: destination → topic, of destinations that are not called like their topics.

        Returns:
            The stage.

        Raises:
            DeclarationError: a value is wrong, or a name or topic is taken.
        """
        what = f"route({checked_name('route', name)!r})"
        if not isinstance(rules, RuleSet):
            raise DeclarationError(f"{what}: rules={rules!r}; give a RuleSet")
        if name in self._routes or name in self._views or name in self._parallel:
            raise DeclarationError(f"{what} exists twice; give each its own name")
        for topic in rules.sources:
            self._check_input(checked_topic(topic))
            if use := self._own_use(topic):
                raise DeclarationError(f"{what}: topic {topic!r} is {use}; read another topic")
        check_partitions(name, tuple(rules.sources)[:1], True, partitions)
        topics = destination_topics(what, rules, to)
        for topic in topics.values():
            if topic in rules.sources:
                raise DeclarationError(f"{what}: topic {topic!r} is read by it; that has no end")
            if use := self._own_use(topic):
                raise DeclarationError(f"{what}: destination {topic!r} is {use}; name another")
        self._routes[name] = made = Route(name, rules, partitions, topics)
        return made
