"""The scenarios of `scripts/bench spark`: modules with SCENARIO and GOALS, each named here."""

from bench.spark import batches, driver, flights, live, rebuild, scale, sinks, updates

MODULES = (sinks, updates, driver, batches, flights, rebuild, live, scale)

SCENARIOS = {module.SCENARIO.name: module.SCENARIO for module in MODULES}
GOALS = tuple(goal for module in MODULES for goal in module.GOALS)
