"""What the environment names: inspectors of sources, and the URLs of databases.

SEQUITUR_INSPECTOR_<SOURCE>=module:name, SEQUITUR_DATABASE_<NAME>=URL.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping

from topology.declaration.ordered_stage import OrderedStage
from topology.declaration.topology import Topology
from topology.model.errors import DeclarationError

PREFIX = "SEQUITUR_INSPECTOR_"
DATABASE = "SEQUITUR_DATABASE_"


def variable(name: str, prefix: str = PREFIX) -> str:
    """The variable of a source: 'web.orders' → 'SEQUITUR_INSPECTOR_WEB_ORDERS'; or of another."""
    return prefix + re.sub(r"[^A-Z0-9]", "_", name.upper())


def database_urls(stages: Iterable[OrderedStage], environment: Mapping[str, str]) -> dict[str, str]:
    """Database → its URL, of those that views with workers declare.

    Raises:
        DeclarationError: the environment has none for one of them.
    """
    found: dict[str, str] = {}
    for stage in stages:
        if (name := stage.work.database) is None:
            continue
        at = variable(name, DATABASE)
        if not environment.get(at):
            raise DeclarationError(
                f"view {stage.view.name!r}: database={name!r}, but {at} is not set; give it the "
                "URL, such as postgresql://USER@HOST/DATABASE, or @FILE for a file that it is in"
            )
        found[name] = environment[at]
    return found


def chosen_inspectors(topology: Topology, environment: Mapping[str, str]) -> dict[str, str]:
    """Source → the inspector that the environment names for it.

    Raises DeclarationError for a variable that fits no source, or several.
    """
    sources: defaultdict[str, list[str]] = defaultdict(list)
    for name in topology.sources:
        sources[variable(name)].append(name)
    chosen: dict[str, str] = {}
    for at, inspector in environment.items():
        if not at.startswith(PREFIX) or not inspector:
            continue
        match sources.get(at, []):
            case [name]:
                chosen[name] = inspector
            case []:
                known = ", ".join(sources) or "none"
                raise DeclarationError(
                    f"{at}={inspector!r}: topology {topology.name!r} has no such source; "
                    f"its sources' variables are {known}"
                )
            case names:
                raise DeclarationError(
                    f"{at}={inspector!r}: it could be any of the sources "
                    f"{', '.join(map(repr, names))}; give one of them another `name`"
                )
    return chosen


def with_inspectors(topology: Topology, environment: Mapping[str, str]) -> Topology:
    """The topology with the inspectors that the environment names; itself where it names none.

    Raises DeclarationError, see `chosen_inspectors`.
    """
    chosen = chosen_inspectors(topology, environment)
    return topology.with_inspectors(chosen) if chosen else topology
