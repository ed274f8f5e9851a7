"""What of a topology runs on Spark: refused at the start, rather than run differently."""

from topology.declaration.policies import Halt, RebuildStream
from topology.declaration.topology import Topology
from topology.declaration.view import View
from topology.model.errors import DeclarationError


def check_supported(topology: Topology) -> None:
    """Check that Spark runs a topology as Faust does.

    Args:
        topology: to be run.

    Raises:
        DeclarationError: the first thing that it cannot run, and what to do instead.
    """
    if not topology.views:
        raise DeclarationError(
            f"topology {topology.name!r} has no views: there is nothing to run; declare one"
        )
    for view in topology.views.values():
        for what, instead in _unsupported(view):
            raise DeclarationError(
                f"view {view.name!r}: {what}; {instead}, or run the topology with Faust"
            )


def _unsupported(view: View) -> list[tuple[str, str]]:
    """(what is not supported and why, what to do instead)."""
    found: list[tuple[str, str]] = []
    if view.adaptive is not None:
        found.append(
            (
                "gap=skip(after=adaptive(…)) learns from all streams of a partition, and on Spark "
                "each stream is on its own",
                "give the seconds, as in skip(after=30)",
            )
        )
    if isinstance(view.late, RebuildStream):
        found.append(
            (
                "late=rebuild_stream() reads a stream's history again while all else goes on, "
                "which a query on Spark cannot do",
                "use late_topic()",
            )
        )
    for policy, given in (("error", view.error), ("full", view.full)):
        if isinstance(given, Halt):
            found.append(
                (
                    f"{policy}=halt() stops a whole view, and on Spark the views of a source are "
                    "one query",
                    "use park()" if policy == "error" else "use spill() or redeliver()",
                )
            )
    return found
