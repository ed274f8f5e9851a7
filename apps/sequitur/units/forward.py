"""`sequitur units forward`: forward what waits on this machine's disk."""

from pathlib import Path
from typing import Any

import click

from sequitur.cli.options import BROKER, FILE, properties_option
from sequitur.cli.running import run_until_stopped
from sequitur.kafka.login import kafka_login
from sequitur.units.process import status_of, units_token
from stores.units import ForwardingAgent


@click.command()
@click.option("--destination", required=True, help="The topic.")
@click.option("--store", type=FILE, required=True, help="The file that producers append to.")
@click.option(
    "--routing",
    type=click.Choice(["hash", "path"]),
    default="hash",
    show_default=True,
    help="Where units live; the path service is shown the token of UNITS_TOKEN.",
)
@click.option("--broker", type=BROKER, help="Kafka; default: SEQUITUR_BROKER.")
@properties_option
def forward(
    destination: str, store: Path, routing: Any, broker: str | None, kafka_properties: Path | None
) -> int:
    """Forward what waits in a store, in order, each message once."""

    def run() -> int:
        login = kafka_login(broker, kafka_properties)
        token = units_token() if routing == "path" else ""
        agent = ForwardingAgent(destination, store, login, routing=routing, token=token)
        return run_until_stopped(agent.run)

    return status_of(run)
