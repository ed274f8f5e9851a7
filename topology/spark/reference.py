"""A topology by name, for Python workers that import it: its code travels, its objects do not."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import ModuleType

from topology.declaration.topology import Topology
from topology.model.dotted import find
from topology.model.errors import DeclarationError


@dataclass(frozen=True, slots=True)
class Reference:
    """Where a topology is: module and name in it.

    inspectors: source → 'module:name' of the inspector that it has in place of its own.
    """

    module: str
    name: str
    inspectors: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        return f"{self.module}:{self.name}"

    def load(self) -> Topology:
        """The topology; the same object each time in a process. Raises DeclarationError."""
        return _load(self)


@lru_cache(maxsize=64)
def _load(reference: Reference) -> Topology:
    try:
        found: Topology = find(
            "topology", str(reference), "topology", lambda one: isinstance(one, Topology)
        )
    except DeclarationError as error:
        raise DeclarationError(
            f"{error}. Spark's Python workers import it too, so its module has to be where they "
            "find it: on PYTHONPATH, or shipped with spark-submit --py-files"
        ) from error
    return found.with_inspectors(dict(reference.inspectors)) if reference.inspectors else found


def refer(topology: Topology | str, inspectors: Mapping[str, str] | None = None) -> Reference:
    """The reference of a topology, or of 'module:name'. Raises DeclarationError."""
    chosen = tuple(sorted((inspectors or {}).items()))
    if isinstance(topology, str):
        module, _, name = topology.partition(":")
        found = Reference(module, name or "topology", chosen)
        found.load()
        return found
    for module, loaded in list(sys.modules.items()):
        if not isinstance(loaded, ModuleType) or module == "__main__":
            continue
        for name, value in list(vars(loaded).items()):
            if value is topology:
                return Reference(module, name, chosen)
    raise DeclarationError(
        f"topology {topology.name!r} is in no module that can be imported: Spark's Python workers "
        "find it by module and name, and the program that is run has none; put it into a module of "
        "its own, or give run() its 'module:name'"
    )
