"""Where a process finds a view again: the name of the topology, in a module."""

import sys
from importlib import import_module
from os import environ

from topology.declaration.environment import variable, with_inspectors
from topology.declaration.ordered_stage import OrderedStage
from topology.declaration.topology import Topology
from topology.declaration.view import View
from topology.model.errors import DeclarationError


def home_of(view: View) -> str:
    """'module:name' of the topology of a view. Raises DeclarationError if it has none."""
    # The process asks the inspector that the environment names, too.
    named = environ.get(variable(view.of.name))
    for module in [*sys.modules.values()]:
        for name, value in [*getattr(module, "__dict__", {}).items()]:
            if not isinstance(value, Topology) or module.__name__ == "__main__":
                continue
            for each in (stage.view for stage in value.stages):
                same = each.of is view.of or (named and each.topology == view.topology)
                if same and each.handler is view.handler:
                    return f"{module.__name__}:{name}"
    raise DeclarationError(
        f"view {view.name!r}: run_in='processes', but topology {view.topology!r} has no name in a "
        "module that a process could import; write `shop = Topology(…)` in a module, or `other = "
        "shop.with_inspectors(…)`, and start the worker as `faust -A module worker`"
    )


def found_at(home: str, view: str) -> OrderedStage:
    """The view again, in the process that was told where it is. Raises LookupError."""
    module, _, name = home.partition(":")
    topology = with_inspectors(getattr(import_module(module), name), environ)
    for stage in topology.stages:
        if stage.view.name == view:
            return stage
    raise LookupError(f"view {view!r} is not in {home} when a process imports it")
