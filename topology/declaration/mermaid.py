"""A topology as a Mermaid diagram."""

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from topology.declaration.describe import Description


Edges = Mapping[str, tuple[str, str]]
"""View → what is said of what comes in, and of what goes out; a source's topic
by stream → of what is re-keyed into it."""


def flowchart(of: "Description", edges: Edges = MappingProxyType({})) -> str:
    """The flowchart of a topology. edges: what is said at the arrows of views and sources."""
    lines, _id = ["flowchart LR"], _Ids()
    for source in of.sources:
        inspected = _id("by", source.by_stream)
        for topic in source.topics:
            lines.append(f'  {_id("t", topic)}[/"{topic}"/]')
        if not source.keyed:
            lines.append(f'  {inspected}[/"{source.by_stream}"/]')
            for topic in source.topics:
                said = edges.get(source.by_stream, ("", ""))[0]
                arrow = _arrow(f"inspect<br/>{said}") if said else "-- inspect -->"
                lines.append(f"  {_id('t', topic)} {arrow} {inspected}")
        else:
            inspected = _id("t", source.topics[0])
        for fed_by in source.fed_by:
            lines.append(f"  {_id('v', fed_by)} --> {inspected}")
        for view in of.views:
            if view.source == source.name:
                node, output = _id("v", view.name), _id("o", view.output)
                into, out = map(_arrow, edges.get(view.name, ("", "")))
                lines.append(f'  {node}["{view.name}<br/>buffer {view.buffer}, {view.gap}"]')
                lines.append(f'  {output}[/"{view.output}"/]')
                if view.work:
                    arrivals, turn = _id("t", f"{view.output}.arrivals"), _id("w", view.name)
                    lines.append(f'  {arrivals}[/"{view.output}.arrivals"/]')
                    lines.append(f'  {turn}["{view.work}"]')
                    lines.append(f"  {inspected} {into} {node} --> {arrivals} --> {turn}")
                    lines.append(f"  {turn} {out} {output}")
                else:
                    lines.append(f"  {inspected} {into} {node} {out} {output}")
                for table in view.tables:
                    lines.append(f'  {output} --> {_id("r", table)}[("{table}")]')
    for stage in of.stages:
        if not stage.after_view:
            topic, turn, output = _id("t", stage.topic), _id("w", stage.view), stage.output
            lines.append(f'  {topic}[/"{stage.topic}"/]')
            lines.append(f'  {turn}["{stage.view}<br/>{stage.work}"]')
            lines.append(f'  {_id("o", output)}[/"{output}"/]')
            lines.append(f"  {topic} --> {turn} --> {_id('o', output)}")
    for route in of.routes:
        steps = [*route.before, *([f"rules {route.version}"] if route.version else [])]
        told = "<br/>".join((route.name, *steps, *route.after))
        node = _id("r", told if route.of_view else route.name)
        lines.append(f'  {node}{{"{told}"}}')
        if route.of_view:
            work = any(view.name == route.name and view.work for view in of.views)
            lines.append(f"  {_id('w' if work else 'v', route.name)} --> {node}")
        for topic in () if route.of_view else route.topics:
            lines.append(f'  {_id("t", topic)}[/"{topic}"/] --> {node}')
        for topic in () if route.version else route.to.values():
            lines.append(f'  {node} --> {_id("t", topic)}[/"{topic}"/]')
        for rule, ends in route.rules.items():
            for topic in dict.fromkeys(route.to[end] for end in ends if end in route.to):
                lines.append(f'  {node} -- "{rule}" --> {_id("t", topic)}[/"{topic}"/]')
    return "\n".join(dict.fromkeys(lines))


def _arrow(text: str) -> str:
    return f'-- "{text}" -->' if text else "-->"


class _Ids:
    """Ids that Mermaid takes; names that differ have ids that differ."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}

    def __call__(self, prefix: str, name: str) -> str:
        found = first = f"{prefix}_{re.sub(r'[^A-Za-z0-9]', '_', name)}"
        count = 1
        while self._names.setdefault(found, name) != name:
            count += 1
            found = f"{first}_{count}"
        return found
