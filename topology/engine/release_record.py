"""What tells the second stage of a view with workers to let a parked stream go on."""

from topology.declaration.ordered_stage import RELEASE
from topology.declaration.view import View
from topology.engine.commit_unit import CommitUnit


def tell_workers(view: View, stream: str, command: bytes, unit: CommitUnit) -> None:
    """Put a command among the events that arrive, where it has its place in their order."""
    alone = view.work is not None and view.work.scope != "partition"
    key = None if alone else stream.encode()
    record = (key, stream.encode(), unit.now, [(RELEASE, command)])
    (unit.keyed if alone else unit.colocated)[view.arrivals_topic].append(record)
