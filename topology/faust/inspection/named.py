"""What an operator names: a view or a source of an app's topology."""

from collections.abc import Mapping
from typing import Any, TypeVar

from topology.declaration.topology import Topology
from topology.declaration.view import View
from topology.model.closest import closest

T = TypeVar("T")


def named(what: str, name: str, found: Mapping[str, T], topology: str) -> T:
    """The view or source of that name; the only one if the name is empty. Raises KeyError."""
    if not name and len(found) == 1:
        return next(iter(found.values()))
    if name not in found:
        known = ", ".join(found)
        raise KeyError(
            f"{what} {name!r} is not in {topology!r}{closest(name, found)}; it has {known}"
            if name
            else f"name the {what} with --{what}; there are {known}"
        )
    return found[name]


def view_of(app: Any, name: str) -> View:
    """The view of that name; the only one if the name is empty. Raises KeyError."""
    topology: Topology = app.engine.topology
    return named("view", name, topology.views, topology.name)


def views_of(app: Any, name: str) -> list[View]:
    """The view of that name; all if the name is empty. Raises KeyError."""
    return [view_of(app, name)] if name else list(app.engine.topology.views.values())
