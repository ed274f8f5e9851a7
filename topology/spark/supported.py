"""What of a topology runs on Spark: refused at the start, rather than run differently."""

from topology.declaration.describe import policy_call
from topology.declaration.policies import Policy
from topology.declaration.topology import Topology
from topology.model.errors import DeclarationError


def check_supported(topology: Topology) -> None:
    """Check that Spark runs a topology as Faust does.

    Args:
        topology: to be run.

    Raises:
        DeclarationError: the first thing that it cannot run, and what to do instead.
    """
    for what, names in (("route", topology.routes), ("parallel", topology.parallel_stages)):
        for name in names:
            raise DeclarationError(
                f"{what}({name!r}) is a stage of its own, which only Faust runs: declare it in a "
                "topology of its own, and run that with Faust"
            )
    if not topology.views:
        raise DeclarationError(
            f"topology {topology.name!r} has no views: there is nothing to run; declare one"
        )
    for source in topology.sources.values():
        if source.fed_by:
            raise DeclarationError(
                f"view {topology.views_of(source)[0].name!r} reads what view {source.fed_by[0]!r} "
                "sends, and on Spark there is no topic between views: run the topology with Faust"
            )
    for view in topology.views.values():
        for what, policy in view.policies.items():
            if isinstance(policy, Policy) and policy.more_than_a_stream:
                raise DeclarationError(
                    f"view {view.name!r}: {what}={policy_call(policy)}, but on Spark each stream "
                    f"is on its own: {policy.more_than_a_stream}, or run the topology with Faust"
                )
