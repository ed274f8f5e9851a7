"""A topology as data, and as text."""

import re
from dataclasses import asdict, dataclass, fields, is_dataclass
from typing import Any

from topology.declaration.graph import Graph
from topology.declaration.mermaid import Edges, flowchart
from topology.declaration.message_path import MessagePath
from topology.declaration.view import View
from topology.model.counted import counted


@dataclass(frozen=True, slots=True)
class SourceDescription:
    """topics → by_stream; keyed sources have no hop between."""

    name: str
    topics: tuple[str, ...]
    inspector: str
    sequence: str
    keyed: bool
    by_stream: str
    partitions: int
    fed_by: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ViewDescription:
    """One view: what it reads, its policies, and where its changes go."""

    name: str
    source: str
    handler: str
    accepts: tuple[str, ...] | None
    buffer: int
    gap: str
    full: str
    late: str
    error: str
    stateful: bool
    output: str
    tables: tuple[str, ...]
    start: str = "first()"
    closing: str | None = None
    lane: str | None = None
    work: str | None = None
    cells: bool = False


@dataclass(frozen=True, slots=True)
class StageDescription:
    """A stage in which handlers work side by side: what it reads, and whose handler it calls."""

    view: str
    handler: str
    topic: str
    partitions: int
    work: str
    output: str
    after_view: bool


@dataclass(frozen=True, slots=True)
class RouteDescription:
    """A stage that routes: topics → rules → topics of the destinations; or a view's messages.

    Attributes:
        name: of the stage, or of the view.
        topics: those that it reads; in whose place it is, if it is of a view: none for all.
        partitions: of those.
        version: of the rules; 0 if there are none.
        rules: rule → where it may lead: destinations, and further rules.
        to: destination → topic.
        of_view: whether it is what a view's verbs say of the messages that it sends.
        before: transformations before routing.
        after: transformations after it.
        reloads: whether later versions may come while it runs.
        parks: whether what fails parks its stream.
    """

    name: str
    topics: tuple[str, ...]
    partitions: int
    version: int
    rules: dict[str, tuple[str, ...]]
    to: dict[str, str]
    of_view: bool = False
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    reloads: bool = False
    parks: bool = False


@dataclass(frozen=True, slots=True)
class Description:
    """A topology as data; `str()` renders it as text.

    Attributes:
        name: the topology's name.
        sources: its sources.
        views: its views.
        side_topics: the topics for what is malformed, late, failed and so on.
        stages: where handlers work side by side.
        routes: where messages are routed.
    """

    name: str
    sources: tuple[SourceDescription, ...]
    views: tuple[ViewDescription, ...]
    side_topics: tuple[str, ...]
    stages: tuple[StageDescription, ...] = ()
    routes: tuple[RouteDescription, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """The same as plain dictionaries, for JSON."""
        return asdict(self)

    def __str__(self) -> str:
        lines = [f"Topology {self.name}"]
        for source in self.sources:
            hop = "keyed by stream" if source.keyed else f"re-keyed to {source.by_stream}"
            fed = "view" if len(source.fed_by) == 1 else "views"
            hop = f"from {fed} {', '.join(source.fed_by)}, by key" if source.fed_by else hop
            lines += [
                f"  Source {source.name}: {', '.join(source.topics)} ({hop}, "
                f"{counted(source.partitions, 'partition')})",
                f"    {source.inspector}, {source.sequence}",
            ]
            for view in self.views:
                if view.source != source.name:
                    continue
                kinds = "all kinds" if view.accepts is None else ", ".join(view.accepts)
                lines += [
                    f"    View {view.name}: {view.handler} of {kinds}"
                    f"{', with state' if view.stateful else ''}{' and cells' * view.cells}",
                    f"      buffer {view.buffer}, gap {view.gap}, full {view.full}, "
                    f"late {view.late}, error {view.error}",
                    *([f"      start {view.start}"] if view.start != "first()" else []),
                    *([f"      {view.closing}"] if view.closing else []),
                    *([f"      lane {view.lane}"] if view.lane else []),
                    *([f"      → {view.output}.arrivals: {view.work}"] if view.work else []),
                    f"      → {view.output}"
                    + (f" → tables {', '.join(view.tables)}" if view.tables else ""),
                ]
        for stage in self.stages:
            if not stage.after_view:
                lines += [
                    f"  Parallel {stage.view}: {stage.handler} of {stage.topic} "
                    f"({counted(stage.partitions, 'partition')})",
                    f"    {stage.work}",
                    f"    → {stage.output}",
                ]
        for route in self.routes:
            head = f"  Route {route.name}: {', '.join(route.topics)}"
            if route.of_view:
                sent = f"sent to {', '.join(route.topics)}" if route.topics else "that it sends"
                head = f"  Messages of view {route.name} {sent}"
            steps = [f"transform {each}" for each in route.before]
            which = "and later ones" if route.reloads else "as declared"
            steps += [f"rules {route.version} {which}"] if route.version else []
            steps += [f"transform {each}" for each in route.after]
            steps += ["what fails parks its stream"] if route.parks else []
            lines += [
                f"{head} ({counted(route.partitions, 'partition')}), {', '.join(steps) or 'as is'}",
                *(f"    Rule {rule} → {', '.join(ends)}" for rule, ends in route.rules.items()),
                *(f"    → {topic}" for topic in dict.fromkeys(route.to.values())),
            ]
        lines.append(f"  Side topics: {', '.join(self.side_topics)}")
        return "\n".join(lines)

    def mermaid(self, edges: Edges | None = None) -> str:
        """A Mermaid flowchart, for a page or a pull request.

        Args:
            edges: view → what is said of what comes in, and of what goes out; a source's topic by
                stream → of what is re-keyed into it.
        """
        return flowchart(self, edges or {})


def describe(topology: Graph) -> Description:
    """Describe the sources and views of a topology."""
    sources = tuple(
        SourceDescription(
            name=source.name,
            topics=source.topics,
            inspector=getattr(source.inspector, "__name__", None) or repr(source.inspector),
            sequence=policy_call(source.sequence),
            keyed=source.keyed,
            by_stream=source.by_stream,
            partitions=source.partitions,
            fed_by=source.fed_by,
        )
        for source in topology.sources.values()
    )
    views = tuple(
        ViewDescription(
            name=view.name,
            source=view.of.name,
            handler=_name(view.handler),
            accepts=None if view.accepts is None else tuple(sorted(view.accepts)),
            buffer=view.buffer,
            gap=policy_call(view.gap),
            full=policy_call(view.full),
            late=policy_call(view.late),
            error=policy_call(view.error),
            stateful=view.stateful,
            output=view.output,
            tables=tuple(table.name for table in view.tables),
            start=str(view.start),
            closing=None if view.closing is None else str(view.closing),
            lane=None if view.lane is None else _value(view.lane),
            work=None if view.work is None else str(view.work),
            cells=view.cells,
        )
        for view in topology.views.values()
    )
    stages = tuple(
        StageDescription(
            view=stage.view.name,
            handler=_name(stage.view.handler),
            topic=stage.topic,
            partitions=stage.partitions,
            work=str(stage.work),
            output=stage.view.output,
            after_view=stage.arrivals,
        )
        for stage in topology.stages
    )
    routes = tuple(
        RouteDescription(
            name=route.name,
            topics=route.topics,
            partitions=route.partitions,
            version=route.rules.number,
            rules={rule: route.rules.leads_to(rule) for rule in route.rules.rules},
            to=dict(route.to),
            reloads=route.reload is not None,
            parks=route.parks,
        )
        for route in topology.routes.values()
    )
    routes += tuple(_of_view(view, path) for view in topology.views.values() for path in view.paths)
    return Description(topology.name, sources, views, topology.side_topics, stages, routes)


def _of_view(view: View, path: MessagePath) -> RouteDescription:
    rules = path.rules
    return RouteDescription(
        name=view.name,
        topics=(path.sent_to,) if path.sent_to else () if rules is None else (*rules.sources,),
        partitions=view.of.partitions,
        version=0 if rules is None else rules.number,
        rules={} if rules is None else {rule: rules.leads_to(rule) for rule in rules.rules},
        to=dict(path.to),
        of_view=True,
        before=tuple(step.name for step in path.before),
        after=tuple(step.name for step in path.after),
    )


def _name(handler: Any) -> str:
    return getattr(handler, "__name__", type(handler).__name__)


def policy_name(policy: type) -> str:
    """The name of the function that makes a policy: `late_topic` for `LateTopic`."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", policy.__name__).lower()


def policy_call(policy: Any) -> str:
    """The call that makes a policy, as text."""
    if not is_dataclass(policy):
        return f"{type(policy).__name__}(…)"
    written = (each for each in fields(policy) if each.repr)
    values = ((each.name, getattr(policy, each.name), each.default) for each in written)
    arguments = ", ".join(
        f"{name}={_value(value)}"
        for name, value, default in values
        if value is not None or default is not None
    )
    return f"{policy_name(type(policy))}({arguments})"


def _value(value: Any) -> str:
    if is_dataclass(value) or (callable(value) and not hasattr(value, "__name__")):
        return policy_call(value)
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return getattr(value, "__name__", None) or repr(value)
