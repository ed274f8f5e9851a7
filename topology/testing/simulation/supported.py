"""What of a topology the simulator knows the outcome of; the rest is refused."""

from topology.declaration.describe import policy_call
from topology.declaration.policies import Ask, Halt, Redeliver
from topology.declaration.starts import First
from topology.declaration.topology import Topology
from topology.declaration.view import View


def check_simulated(topology: Topology) -> None:
    """Raises ValueError for what the simulator cannot tell from a broken promise."""
    for view in topology.views.values():
        if (what := _beyond(view)) is not None:
            raise ValueError(
                f"view {view.name!r}: {what} is not simulated; simulate the topology without it, "
                "and test that with TopologyTestDriver and its restart()"
            )


def _beyond(view: View) -> str | None:
    if not isinstance(view.start, First):
        return f"start={view.start}"
    if view.closing is not None:
        return "closes=…"
    if view.lane is not None:
        return "lane=…"
    if isinstance(view.gap, Ask):
        return f"gap={policy_call(view.gap)}, which nobody answers,"
    for what, policy in view.policies.items():
        if isinstance(policy, Halt):
            return f"{what}=halt(), which nobody resumes,"
    if isinstance(view.full, Redeliver) and view.full.limit is None and not view.gap.skips:
        return f"full={policy_call(view.full)} without a limit, which never comes to rest,"
    return None
