"""A simulated partition of whose unit a crash may leave any of the first rows, as Kafka may."""

from collections.abc import Generator

from topology.engine.commit_unit import CommitUnit
from topology.testing.simulation.commits import Send
from topology.testing.simulation.runner import PartitionRunner


class TornUnits(PartitionRunner):
    """Where a unit is no transaction, its rows are written in two parts."""

    def send(self, unit: CommitUnit, send: Send) -> Generator[str, None, dict[str, int]]:
        if self.world.guarantee == "exactly_once":
            return (yield from super().send(unit, send))
        ends = {}
        for place, records in self.outputs(unit):
            send(place, records)
            yield "outputs"
        for view, rows in self.changes(unit):
            place = self.world.changelog(view, unit.partition)
            # Anywhere, but at the same place in each replay of a seed.
            cut = 7 * (unit.next_offset or 0) % len(rows) if rows else 0
            for part in (rows[:cut], rows[cut:]):
                if part:
                    ends[view] = send(place, part)
                    yield "changelog"
        return ends


def but_counts(wrong: list[str]) -> list[str]:
    """What is wrong, but for counts: they are the last row of a unit, and may be lost with it."""
    return [each for each in wrong if ": the counts are " not in each]
