"""What of a view a trial on recorded events does not do, in words."""

from topology.declaration.describe import policy_call
from topology.declaration.policies import Advance
from topology.declaration.view import View


def untried(view: View, whole: bool) -> list[str]:
    """whole: whether all that ever came is recorded."""
    notes = [
        f"{what}={policy_call(policy)}: {policy.untried}"
        for what, policy in (("full", view.full), ("late", view.late))
        if policy.untried
    ]
    if not isinstance(view.error, Advance):
        notes.append("error=…: no handler is run; nothing fails, is retried, parked or halted")
    if view.start.opens and not whole:
        notes.append(
            "start=opened_by(…): streams begin with the lowest of what is recorded, since what "
            "opened them may not be"
        )
    if view.closing is not None:
        notes.append("closes=…: what comes after its stream's end is late, whatever the time")
    return notes
