"""The sources and views that a topology has so far, and what its own topics are for."""

from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING

from topology.declaration.emits import alike
from topology.declaration.ordered_stage import OrderedStage, stage_of
from topology.declaration.orders import StreamOrder
from topology.declaration.parallel_work import ParallelWork
from topology.declaration.side_topics import SideTopics
from topology.declaration.source import Source
from topology.declaration.view import View
from topology.inspectors.inspector import Compiles
from topology.model.errors import DeclarationError
from topology.model.names import checked_name
from topology.model.printable import printable
from topology.model.table import Table

if TYPE_CHECKING:
    from topology.declaration.route import Route


class Graph(SideTopics):
    """Sources and views by name, and whether another one fits in."""

    def __init__(self, name: str) -> None:
        self.name = checked_name("topology", name)
        self._sources: dict[str, Source] = {}
        self._views: dict[str, View] = {}
        self._parallel: dict[str, OrderedStage] = {}
        self._routes: dict[str, Route] = {}

    @property
    def _prefix(self) -> str:
        return self.name

    @property
    def sources(self) -> MappingProxyType[str, Source]:
        """Name → source, in order of declaration."""
        return MappingProxyType(self._sources)

    @property
    def views(self) -> MappingProxyType[str, View]:
        """Name → view, in order of declaration."""
        return MappingProxyType(self._views)

    @property
    def routes(self) -> "MappingProxyType[str, Route]":
        """Name → what routes, in order of declaration."""
        return MappingProxyType(self._routes)

    @property
    def parallel_stages(self) -> MappingProxyType[str, OrderedStage]:
        """Name → what `parallel` declared, in order of declaration."""
        return MappingProxyType(self._parallel)

    @property
    def stages(self) -> list[OrderedStage]:
        """What works side by side: the second stages of views, and those of `parallel`."""
        of_views = [stage for view in self._views.values() if (stage := stage_of(view))]
        return [*of_views, *self._parallel.values()]

    def views_of(self, source: Source) -> list[View]:
        """The views of one source."""
        return [view for view in self._views.values() if view.of is source]

    def replace_view(self, view: View) -> None:
        """Put what was added to a declared view in its place."""
        self._views[view.name] = view

    def add_hop(
        self,
        name: str,
        topic: str,
        fed_by: tuple[str, ...],
        inspector: Compiles,
        sequence: StreamOrder,
        partitions: int,
    ) -> Source:
        """Add a source whose topic views fill, for another one. Raises DeclarationError."""
        self._check_input(topic)
        if name in self._sources:
            raise DeclarationError(f"source {name!r} exists twice; give one of them a `name`")
        made = Source(
            name=name, topology=self.name, topics=(topic,), inspector=inspector,
            inspect=sequence.compile(inspector), sequence=sequence, keyed=True,
            partitions=partitions, unknown="pass", fed_by=fed_by,
        )  # fmt: skip
        self._sources[name] = made
        return made

    def add_tables(self, view: str, tables: tuple[Table, ...]) -> None:
        """A declared view writes to more tables. Raises DeclarationError if one is another's."""
        found = self._views[view]
        self._check_tables(view, tables)
        self.replace_view(replace(found, tables=(*found.tables, *tables)))

    def _check_input(self, topic: str) -> None:
        """Whether a source may read the topic. Raises DeclarationError."""
        for view in self._views.values():
            if topic in self._topics_of(view.name).values():
                raise DeclarationError(
                    f"topic {topic!r} is the output of one of the topology's own views; "
                    "read it in a topology of its own"
                )
        for stage in self._parallel.values():
            if topic in (stage.topic, stage.view.output):
                raise DeclarationError(
                    f"topic {topic!r} is read or written by parallel({stage.view.name!r}) of this "
                    "topology; read it in a topology of its own"
                )
        for route in self._routes.values():
            if topic in route.topics or topic in route.to.values():
                raise DeclarationError(
                    f"topic {topic!r} is read or written by route({route.name!r}) of this topology;"
                    " read it in a topology of its own"
                )
        other = next((s for s in self._sources.values() if topic in s.topics), None)
        if other is not None:
            raise DeclarationError(
                f"topic {topic!r} belongs to source {other.name!r} already; "
                "declare one source and give its views different `accepts`"
            )

    def _source_of(self, view: str, of: Source | str) -> Source:
        """The source that a view names. Raises DeclarationError."""
        if not isinstance(of, Source | str):
            raise DeclarationError(
                f"view {view!r}: of={printable(repr(of))}; a view is of one source, or its name. "
                "Merge several topics by stream in one source(['…', '…']), or declare a view for "
                "each source"
            )
        source = self._sources.get(of.name if isinstance(of, Source) else of)
        if source is None or (isinstance(of, Source) and of is not source):
            known = ", ".join(map(repr, self._sources)) or "none yet"
            unknown = of.name if isinstance(of, Source) else of
            raise DeclarationError(
                f"view {view!r}: source {unknown!r} is not one of topology {self.name!r} "
                f"(it has {known}); declare it with .source(…) first"
            )
        return source

    def _own_use(self, topic: str, new: tuple[str, ...] = ()) -> str | None:
        """What one of the topology's own topics is for, None for any other topic.

        new: views that are about to be declared.
        """
        name = alike(topic)
        for source in self._sources.values():
            if not source.keyed and name == alike(source.by_stream):
                return "the by-stream topic"
            inner = source.fed_by and not {*source.fed_by} & {*new}
            if inner and name == alike(source.by_stream):
                return f"the topic between view {source.fed_by[0]!r} and what reads it"
        for side in (*self.side_topics, self.clock_topic, f"{self.name}.dead-records"):
            if name == alike(side):
                return f"the topic {side!r}"
        for route in self._routes.values():
            for what, own in (("control", route.control), ("trails", route.trails)):
                if name == alike(own):
                    return f"the {what} topic of route({route.name!r})"
        for view in (*self._views, *self._parallel, *new):
            for what, own in self._topics_of(view).items():
                if name == alike(own):
                    return f"the {what} topic of view {view!r}"
            if topic.endswith((f"-{view}-changelog", f"-{view}.arrivals-changelog")):
                return f"the changelog of view {view!r}"
        return None

    def _topics_of(self, view: str) -> dict[str, str]:
        """What a view's topics are for → their names."""
        output = f"{self.name}.{view}"
        return {
            "output": output,
            "redelivery": f"{output}.redeliver",
            "commands": f"{output}.commands",
            "arrivals": f"{output}.arrivals",
        }

    def _check_scope(self, view: str, work: ParallelWork | None) -> None:
        """Whether the view may have the one global order. Raises DeclarationError."""
        for other in self._views.values() if work is not None and work.scope == "global" else ():
            if other.work is not None and other.work.scope == "global":
                raise DeclarationError(
                    f"view {view!r}: scope='global', but view {other.name!r} has the one global "
                    f"order of topology {self.name!r}: views do not wait for each other. Merge the "
                    "topics in one source(['…', '…']), which one view handles in one order, or use "
                    "scope='topic'"
                )

    def _inputs(self) -> set[str]:
        """The topics that are read, and those that routes write; by what Kafka tells apart."""
        found = {topic for source in self._sources.values() for topic in source.topics}
        found |= {stage.topic for stage in self._parallel.values()}
        for route in self._routes.values():
            found |= {*route.topics, *route.to.values()}
        return {*map(alike, found)}

    def _use(self, topic: str) -> str | None:
        """What a topic that is to be the topology's own is for already, None if for nothing."""
        if alike(topic) in self._inputs():
            return "a source's topic"
        for view in (*self._views.values(), *(each.view for each in self._parallel.values())):
            if alike(topic) in map(alike, view.emitting.declared):
                return f"a topic that view {view.name!r} sends to"
        return self._own_use(topic)

    def _check_by_stream(self, source: Source) -> None:
        """Whether a source may have its own topic. Raises DeclarationError."""
        topic = source.by_stream
        use = self._use(topic)
        if use or alike(topic) in map(alike, source.topics):
            raise DeclarationError(
                f"source {source.name!r}: its by-stream topic would be {topic!r}, which is "
                f"{use or 'its own input'} already (Kafka takes . and _ for the same); give it "
                "another name"
            )

    def _check_output(self, view: str) -> None:
        inputs, own = self._inputs(), {each.by_stream for each in self._sources.values()}
        own |= {*self.side_topics, self.clock_topic, f"{self.name}.dead-records"}
        own |= {each for route in self._routes.values() for each in (route.control, route.trails)}
        for other in (*self._views.values(), *(each.view for each in self._parallel.values())):
            own |= {*self._topics_of(other.name).values(), *other.emitting.declared}
        own = {*map(alike, own)}
        for what, topic in self._topics_of(view).items():
            if alike(topic) in inputs | own:
                use = "is a source's topic" if alike(topic) in inputs else "has another use"
                raise DeclarationError(
                    f"view {view!r}: its {what} topic would be {topic!r}, which {use}; "
                    "rename the view (Kafka takes . and _ for the same)"
                )

    def _check_tables(self, view: str, declared: tuple[Table, ...]) -> None:
        others = (*self._views.values(), *(stage.view for stage in self._parallel.values()))
        taken = {table.name: other.name for other in others for table in other.tables}
        for table in declared:
            if table.name in taken:
                raise DeclarationError(
                    f"view {view!r}: table {table.name!r} belongs to view {taken[table.name]!r}; "
                    "a table is written by one view"
                )
            taken[table.name] = view
