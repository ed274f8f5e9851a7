"""The verbs on what a view sends: `transform`, `route` and `to`, in the view's own commit unit."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

from topology.declaration.graph import Graph
from topology.declaration.message_path import MessagePath
from topology.declaration.route import destination_topics
from topology.model.changes import Emit
from topology.model.errors import DeclarationError
from topology.model.event import Event
from topology.model.names import checked_topic
from topology.model.printable import printable
from topology.model.typed import HandlerType
from topology.routing import RuleSet, Transformation


@dataclass(frozen=True, slots=True, eq=False)
class SentMessages:
    """The messages that a view sends: those of its handler, or the events' own if it has none.

    Each verb returns another value; `to` ends the path, and declares it.
    """

    _graph: Graph
    _view: str
    _declare: Callable[[Any], Any]
    _path: MessagePath = field(default_factory=MessagePath)

    def sent_to(self, topic: str) -> "SentMessages":
        """Take only what the handler sends to one topic; nothing is written there then.

        Args:
            topic: as the handler's `Emit` names it.

        Raises:
            DeclarationError: it is no topic, or another verb came first.
        """
        if self._path.before or self._path.rules is not None:
            raise self._wrong("sent_to(…) comes before the other verbs")
        return self._with(sent_to=checked_topic(topic))

    def transform(self, *steps: Transformation | str) -> "SentMessages":
        """Transform each message; before routing if `route` follows, else what goes out.

        Args:
            steps: transformations, in order; after `route`, names of those of the rules too.

        Raises:
            DeclarationError: a name is unknown, or one does not read what the one before writes.
        """
        rules, path = self._path.rules, self._path
        known = {} if rules is None else rules.formats.transformations
        made = tuple(known.get(each, each) if isinstance(each, str) else each for each in steps)
        for each in made:
            if not isinstance(each, Transformation):
                more = f", or the name of one of {', '.join(known)}" if known else ""
                raise self._wrong(f"{printable(repr(each))}: give a Transformation{more}")
        if rules is not None:
            return self._with(after=self._joined((*path.after, *made)))
        return self._with(before=self._joined((*path.before, *made)))

    def route(self, rules: RuleSet) -> "SentMessages":
        """Route each message: its destinations are found by looking inside.

        A message that fails is its event's failure: the view's `error` policy says what is done. A
        message without a destination is counted as `unrouted`.

        Args:
            rules: what they read are the topics that the handler sends to; without a handler, those
                of the view's source.

        Raises:
            DeclarationError: it is no rule set, or a transformation writes another format than the
                rules read.
        """
        path = self._path
        if not isinstance(rules, RuleSet):
            raise self._wrong(f"route({printable(repr(rules))}): give a RuleSet")
        if path.rules is not None:
            raise self._wrong("route(…) twice; let a rule lead to further rules with `then`")
        if path.sent_to is not None and path.sent_to not in rules.sources:
            raise self._wrong(f"sent_to({path.sent_to!r}): the rules do not read that topic")
        for topic, source in rules.sources.items():
            if path.before and path.takes(topic) and path.before[-1].writes != source.format:
                raise self._wrong(
                    f"transformation {path.before[-1].name!r} writes {path.before[-1].writes!r}, "
                    f"but the rules read {source.format!r} from {topic!r}"
                )
        return self._with(rules=rules)

    def to(self, topics: str | Mapping[str, str] | None = None) -> None:
        """Send them, in the order of their streams, in the commit unit of their events.

        Args:
            topics: the topic; after `route`, destination → topic, of destinations that are not
                called like their topics.

        Raises:
            DeclarationError: a topic or destination is wrong, or a format does not fit.
        """
        path, graph = self._path, self._graph
        if path.rules is None:
            if not isinstance(topics, str):
                raise self._wrong("to(…): name a topic; destinations need route(…) first")
            path = replace(path, to={"": checked_topic(topics)})
        else:
            if isinstance(topics, str):
                raise self._wrong(f"to({topics!r}) after route(…): give {{destination: topic}}")
            for formats in path.rules.plans(path.rules.formats).values() if path.after else ():
                for made in formats.users:
                    if made != path.after[0].reads:
                        raise self._wrong(
                            f"transformation {path.after[0].name!r} reads {path.after[0].reads!r}, "
                            f"but gets {made!r} for {', '.join(formats.users[made])}"
                        )
            path = replace(path, to=destination_topics(self._what, path.rules, topics))
        if bare := self._view not in graph.views:
            self._declare(pass_on)
        view = graph.views[self._view]
        if bare and not any(map(path.takes, view.of.topics)):
            raise self._wrong(
                f"it has no handler, and its source's topics are {', '.join(view.of.topics)}, of "
                "which the verbs take none: let the rules read one of them, or declare the handler "
                "first"
            )
        emitting = view.emitting.and_also(path.to.values())
        graph.replace_view(replace(view, paths=(*view.paths, path), emitting=emitting))

    @property
    def _what(self) -> str:
        return f"view {self._view!r}"

    def _wrong(self, why: str) -> DeclarationError:
        return DeclarationError(f"{self._what}: {why}")

    def _with(self, **changes: Any) -> "SentMessages":
        path = replace(self._path, **changes)
        return SentMessages(self._graph, self._view, self._declare, path)

    def _joined(self, steps: tuple[Transformation, ...]) -> tuple[Transformation, ...]:
        for before, after in pairwise(steps):
            if before.writes != after.reads:
                raise self._wrong(
                    f"transformation {after.name!r} reads {after.reads!r}, but gets "
                    f"{before.writes!r} of {before.name!r}"
                )
        return steps


class DeclaredView(SentMessages):
    """What `Topology.view` returns: a decorator of the handler, and verbs on what it sends."""

    __slots__ = ()

    def __call__(self, function: HandlerType) -> HandlerType:
        """Declare the view with its handler, which is returned as it is.

        Args:
            function: the handler.

        Raises:
            DeclarationError: it is no handler, or the view has one.
        """
        declared: HandlerType = self._declare(function)
        return declared


def pass_on(event: Event) -> Iterator[Emit]:
    """The handler of a view that has only verbs: each event's message, with its stream as key."""
    message = event.message
    yield Emit(message.topic, event.stream, message.value, tuple(message.headers))
