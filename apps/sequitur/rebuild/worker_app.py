"""The compiled app of the worker whose views are rebuilt."""

import sys
from typing import Any

from topology import Topology
from topology.model.dotted import find


def load_app(place: str) -> Any:
    """The app at `MODULE:NAME`, `:app` if there is no name, as `faust -A` takes it.

    Raises DeclarationError.
    """
    sys.path.insert(0, "")
    return find("compiled app", place, "app", _is_app)


def _is_app(found: Any) -> bool:
    return isinstance(getattr(getattr(found, "engine", None), "topology", None), Topology)
