"""The compiled app of the worker whose views are rebuilt."""

import sys
from importlib import import_module
from typing import Any

from apps.kafka_options import OptionError
from topology import Topology


def load_app(place: str) -> Any:
    """The app at `MODULE:NAME`, `:app` if there is no name, as `faust -A` takes it.

    Raises OptionError.
    """
    module, _, name = place.partition(":")
    sys.path.insert(0, "")
    try:
        found = getattr(import_module(module), name or "app", None)
    except (ImportError, ValueError) as error:
        raise OptionError(f"app {place!r}: {error}; write MODULE or MODULE:NAME") from error
    if not isinstance(getattr(getattr(found, "engine", None), "topology", None), Topology):
        raise OptionError(
            f"app {place!r}: that is no compiled topology; name the module of the worker, "
            "which has app = compile(topology)"
        )
    return found
