"""What of a view a trial on recorded events does not do, in words."""

from topology.declaration.policies.error import Advance, Halt
from topology.declaration.policies.full import Redeliver
from topology.declaration.policies.late import RebuildStream
from topology.declaration.starts import OpenedBy
from topology.declaration.view import View


def untried(view: View, whole: bool) -> list[str]:
    """whole: whether all that ever came is recorded."""
    notes = []
    if isinstance(view.full, Redeliver):
        notes.append("full=redeliver(…): tried as spill(); nothing goes away and comes again")
    if isinstance(view.full, Halt):
        notes.append("full=halt(): tried as spill(); the view does not halt")
    if not isinstance(view.error, Advance):
        notes.append("error=…: no handler is run; nothing fails, is retried, parked or halted")
    if isinstance(view.late, RebuildStream):
        notes.append("late=rebuild_stream(): what is late is counted; nothing is rebuilt")
    if isinstance(view.start, OpenedBy) and not whole:
        notes.append(
            "start=opened_by(…): streams begin with the lowest of what is recorded, since what "
            "opened them may not be"
        )
    if view.closing is not None:
        notes.append("closes=…: what comes after its stream's end is late, whatever the time")
    return notes
