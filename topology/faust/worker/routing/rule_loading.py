"""What a stage's function loads: off the event loop, and held against what the stage declares."""

import asyncio
from functools import partial

from topology.declaration.route import Route
from topology.engine.route_task import endpoint_topic
from topology.faust.worker.handler_threads import HandlerThreads
from topology.model.errors import DeclarationError, described
from topology.model.printable import printable
from topology.routing import Load, RuleSet

LOAD_LIMIT = 120.0
"""Seconds that the tables may take to load."""


async def load_rules(
    threads: HandlerThreads, route: Route, load: Load, before: RuleSet | None
) -> RuleSet:
    """What `made_rules` makes in a thread. Raises TimeoutError, too."""
    made = threads.submit(partial(made_rules, route, load, before))
    try:
        async with asyncio.timeout(LOAD_LIMIT):
            return await asyncio.wrap_future(made)
    except TimeoutError:
        raise TimeoutError(f"it took longer than {LOAD_LIMIT:.0f} s") from None


def made_rules(route: Route, load: Load, before: RuleSet | None) -> RuleSet:
    """What the stage's function loads, with what is registered, once it is found to fit.

    Raises DeclarationError, and whatever the function raises.
    """
    if before is not None and not load.stale:
        rules = before
    else:
        assert route.reload is not None
        try:
            rules = route.reload(load, before)
        except Exception:
            raise
        except BaseException as error:  # it would end whoever waits for this
            raise RuntimeError(f"reload raised {described(error)}") from error
        if not isinstance(rules, RuleSet) or rules.number != load.version:
            raise DeclarationError(f"reload gave {rules!r}; return the rules {load.version}")
    for what, has, wants in (
        ("sources", rules.sources, route.rules.sources),
        ("destinations", rules.destinations, route.to),
    ):
        if has.keys() != wants.keys():
            raise DeclarationError(
                f"{what} are {', '.join(map(printable, has))}, and were "
                f"{', '.join(wants)}; restart the workers to change them"
            )
    rules = rules.with_endpoints(load.version, load.endpoints)
    taken = {*route.topics, *route.to.values(), route.control, route.trails}
    for endpoint in load.endpoints:
        topic = endpoint_topic(route.to[endpoint.destination], endpoint)
        if endpoint.name != endpoint.destination and topic in taken:
            raise DeclarationError(
                f"endpoint {endpoint.name!r}: its topic {topic} has another use; rename it"
            )
        taken.add(topic)
    assert rules.digest  # worked out here, and not on the event loop
    return rules
