"""`sequitur units work`: a topology consumes a destination of units."""

from pathlib import Path

import click

from sequitur.cli.options import BROKER, properties_option, topology_option
from sequitur.cli.running import run_until_stopped
from sequitur.kafka.login import kafka_login
from sequitur.units.process import status_of, units_token


@click.command()
@topology_option(required=True, help="Whose handler works.")
@click.option("--name", required=True, help="Of its parallel(…), whose topic is the destination.")
@click.option("--group", required=True, help="The subscriber.")
@click.option("--broker", type=BROKER, help="Kafka; default: SEQUITUR_BROKER.")
@properties_option
def work(
    topology: str, name: str, group: str, broker: str | None, kafka_properties: Path | None
) -> int:
    """Handle units with a handler of a topology.

    What it yields is sent in the transaction that completes the message; start the
    servers with each topic that it sends to as an --output.
    """

    def run() -> int:
        from sequitur.materialize.outputs import load_topology
        from sequitur.units.worker import UnitWorkers, stage_for_units

        stage = stage_for_units(load_topology(topology), name)
        workers = UnitWorkers(stage, group, kafka_login(broker, kafka_properties), units_token())
        return run_until_stopped(workers.run)

    return status_of(run)
