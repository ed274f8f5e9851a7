"""The real-input example: the flights of 2013 out of New York, as movements of aircraft.

`faust -A sequitur.flights worker` finds the compiled app here as `sequitur.flights.app`. It is
compiled on first access, so that importing `sequitur.flights.movements` does not import Faust.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import faust

    app: faust.App


def __getattr__(name: str) -> Any:
    """Compile the topology when `app` is first asked for, and keep it."""
    if name != "app":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from topology.faust import compile as compile_topology

    from .topology import topology as flights_topology

    compiled = globals()["app"] = compile_topology(flights_topology)
    return compiled
