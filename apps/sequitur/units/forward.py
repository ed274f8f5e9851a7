"""`sequitur units forward`: forward what waits on this machine's disk."""

from pathlib import Path

import click

from sequitur.cli.options import BROKER, FILE, properties_option
from sequitur.cli.running import run_until_stopped
from sequitur.kafka.login import kafka_login
from sequitur.units.process import status_of
from stores.units import ForwardingAgent


@click.command()
@click.option("--destination", required=True, help="The topic.")
@click.option("--store", type=FILE, required=True, help="The file that producers append to.")
@click.option("--broker", type=BROKER, help="Kafka; default: SEQUITUR_BROKER.")
@properties_option
def forward(
    destination: str, store: Path, broker: str | None, kafka_properties: Path | None
) -> int:
    """Forward what waits in a store, in order, each message once."""

    def run() -> int:
        agent = ForwardingAgent(destination, store, kafka_login(broker, kafka_properties))
        return run_until_stopped(agent.run)

    return status_of(run)
