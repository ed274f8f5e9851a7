"""What a view's handler sends, for verbs in the same view: no topic is between."""

from collections.abc import Callable
from typing import Any, TypeVar, overload

from topology.declaration.topology import Topology
from topology.model.errors import DeclarationError
from topology.model.names import checked_topic
from topology.verbs.events import Events, Time
from topology.verbs.inputs import Sent, Within
from topology.verbs.steps import Step, checked_function, reader

T = TypeVar("T")


@overload
def emitted(
    topology: Topology, view: str, topic: str, *, time: Callable[[Any], Time] | None = None
) -> Events[Any]: ...
@overload
def emitted(
    topology: Topology,
    view: str,
    topic: str,
    *,
    of: type[T],
    time: Callable[[Any], Time] | None = None,
) -> Events[T]: ...
def emitted(
    topology: Topology,
    view: str,
    topic: str,
    *,
    of: Any = None,
    time: Callable[[Any], Time] | None = None,
) -> Events[Any]:
    """Take what a view's handler sends to a topic; nothing is written there then.

    The verbs run in the handler's view, behind it, in the commit unit of its event. What is sent
    belongs to the stream of the event.

    Args:
        topology: the view's.
        view: its name; its handler is a plain one.
        topic: as the handler's `Emit` names it.
        of: the type of the values; as the handler sends them unless given.
        time: a function of the content of the handler's event to when it happened, as of `events`.

    Raises:
        DeclarationError: there is no such view, verbs take its topic already, its handler is async,
            works side by side, or does not see every event; or the type is none that can be read.
    """
    checked_topic(topic)
    what = f"emitted({view!r:.100}, {topic!r}): "
    declared = topology.views.get(view) if isinstance(view, str) else None
    if declared is None:
        known = ", ".join(map(repr, topology.views))
        raise DeclarationError(f"{what}topology {topology.name!r} has no such view; it has {known}")
    if topic in declared.taken or any(path.takes(topic) for path in declared.paths):
        raise DeclarationError(
            f"{what}verbs take that already; use the value that emitted(…) returned, as often as "
            "you like"
        )
    if declared.is_async or declared.work is not None or declared.split is not None:
        raise DeclarationError(
            f"{what}the handler is async, or has workers or lanes; verbs run behind a plain one. "
            "Let it send to a topic, and take the events of a source of that topic"
        )
    if declared.accepts is not None:
        raise DeclarationError(
            f"{what}the handler does not see every event, so that nobody could say which are "
            "missing; leave accepts= away, and return where the kind is another"
        )
    if time is not None:
        checked_function("emitted(time", time)
    read = reader("emitted", of)
    steps: tuple[Step, ...] = (("flat_map", lambda sent: map(read, sent.values)),)
    of_event = None if time is None else _time_of(time)
    within = Within(topology, view, topic)
    return Events(topology, declared.of, lambda sent: sent, of_event, steps, within)


def _time_of(time: Callable[[Any], Any]) -> Callable[[Sent], Any]:
    return lambda sent: time(sent.content)
