"""A stage that routes: messages of topics, by rules, to the topics of their destinations."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from topology.declaration.emits import alike
from topology.declaration.graph import Graph
from topology.declaration.source_checks import check_partitions
from topology.model.closest import closest
from topology.model.errors import DeclarationError
from topology.model.names import checked_name, checked_topic, plain_function
from topology.routing import Load, RuleSet

Reload = Callable[[Load, RuleSet | None], RuleSet]
"""What is to be loaded, and the rules before it, None to load all → the rules of that number."""

TrailFunction = Callable[[dict[str, Any]], Mapping[str, Any] | None]
"""A trail, as `Routing.as_dict` gives it → what is written instead, None to write nothing."""


class RouteTable(NamedTuple):
    """Where a stage keeps what it has parked of a topic."""

    name: str
    topic: str


@dataclass(frozen=True, slots=True, eq=False)
class Route:
    """Routes the messages of topics.

    Attributes:
        name: of the stage.
        rules: by which it routes; their sources are the topics that it reads.
        partitions: of those topics.
        to: destination → topic.
        reload: makes a version of the rules; None where they stay as they were declared.
        control: the topic by which its processes agree on a version.
        trails: the topic that trails go to, in the transaction that routes; empty for the log.
        trail_function: sees each trail, and returns what is written; None to drop it.
        attempts: how often a message is tried before it has failed.
        parks: whether what fails parks its stream.
    """

    name: str
    rules: RuleSet
    partitions: int
    to: Mapping[str, str]
    reload: Reload | None = None
    control: str = ""
    trails: str = ""
    trail_function: TrailFunction | None = None
    attempts: int = 1
    parks: bool = False

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics that it reads."""
        return tuple(self.rules.sources)

    @property
    def tables(self) -> tuple[RouteTable, ...]:
        """What it keeps besides offsets: a table for each topic, if it parks."""
        topics = self.topics if self.parks else ()
        return tuple(RouteTable(f"{self.name}.{topic}", topic) for topic in topics)


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
        reload: Reload | None = None,
        trails: Literal["log", "topic"] = "log",
        trail_function: TrailFunction | None = None,
        attempts: int = 1,
        parks: bool = False,
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
            reload: makes the next version of the rules when an application says, in the topic
                `<topology>.<name>.control`, that tables are stale: a function of a `Load` and of
                the rules before it (None where everything is to be loaded), called in a thread.
                With it, all workers route by the version that they agree on. It has the sources
                and destinations of `rules`.
            trails: where trails go that a control record asks for: `"log"`, by a thread that
                drops what it cannot keep up with, or `"topic"`, `<topology>.<name>.trails`, in
                the transaction that routes. They need `reload`.
            trail_function: sees each trail before it is written, as a dictionary, and returns
                what is written instead; None to drop it. A trail on which it fails is dropped.
            attempts: how often a message whose module or transformation fails is tried.
            parks: whether a message that fails is set aside, and with it the later ones of its
                key (without a key: of its partition), in order, until an operator redrives them.
                It needs `reload`, since redriving is a control record.

        Returns:
            The stage.

        Raises:
            DeclarationError: a value is wrong, or a name or topic is taken.
        """
        what = f"route({checked_name('route', name)!r})"
        if not isinstance(rules, RuleSet):
            raise DeclarationError(f"{what}: rules={rules!r}; give a RuleSet")
        if reload is not None:
            plain_function(f"{what}: reload={reload!r}", reload, "load", "rules")
        if trail_function is not None:
            plain_function(f"{what}: trail_function={trail_function!r}", trail_function, "trail")
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
        if trails not in ("log", "topic"):
            raise DeclarationError(f"{what}: trails={trails!r}; give 'log' or 'topic'")
        if isinstance(attempts, bool) or not isinstance(attempts, int) or not 1 <= attempts <= 100:
            raise DeclarationError(f"{what}: attempts={attempts!r}; give a number from 1 to 100")
        if not isinstance(parks, bool) or (parks and reload is None):
            raise DeclarationError(
                f"{what}: parks={parks!r}; give True together with reload=, False otherwise"
            )
        control = f"{self.name}.{name}.control"
        told = f"{self.name}.{name}.trails" if trails == "topic" else ""
        both_ways = {*map(alike, (*rules.sources, *topics.values()))}
        for topic in (control, told) if told else (control,):
            use = "read or written by it" if alike(topic) in both_ways else self._use(topic)
            if use:
                raise DeclarationError(f"{what}: its topic {topic!r} is {use}; rename the stage")
        self._routes[name] = made = Route(
            *(name, rules, partitions, topics, reload, control, told, trail_function, attempts),
            parks=parks,
        )
        return made
