"""`sequitur alerts`: watch topics of errors for patterns, and tell somebody."""

import asyncio
import logging
from pathlib import Path

import click

from sequitur.alerts.config import read_config
from sequitur.alerts.pages import AlertPages
from sequitur.alerts.watch import Watch
from sequitur.cli.options import BROKER, FILE, metrics_option, properties_option
from sequitur.cli.outcome import MISTAKES, cannot, log_to_stderr
from sequitur.cli.running import run_until_stopped
from sequitur.kafka.login import kafka_login
from topology.model.counted import counted

logger = logging.getLogger("alerts")


@click.command("alerts")
@click.argument("file", type=FILE)
@click.option("--broker", type=BROKER, help="Kafka; default: SEQUITUR_BROKER.")
@properties_option
@click.option("--everything", is_flag=True, help="What the topics have counts too, at first.")
@click.option("--check", is_flag=True, help="Check the file, and end.")
@metrics_option
def command(
    file: Path,
    broker: str | None,
    kafka_properties: Path | None,
    everything: bool,
    check: bool,
    metrics: str | None,
) -> int:
    """Watch topics of errors for the patterns of a TOML FILE.

    An alert sends an e-mail, posts to a webhook or runs a command. Run one process
    for a file: two would both tell of what they see.
    """
    log_to_stderr()
    try:
        config = read_config(file)
        kafka = kafka_login(broker, kafka_properties)
        watch = Watch(config, kafka, everything)
    except (*MISTAKES, ValueError) as error:
        return cannot(error, logger)
    if check:
        print(f"{file}: {counted(len(config.pattern), 'pattern')} over {', '.join(config.topics)}")
        return 0

    async def work(stopped: asyncio.Event) -> None:
        async with AlertPages(watch, kafka).at(metrics):
            await watch.run(stopped)

    try:
        return run_until_stopped(work)
    except MISTAKES as error:
        return cannot(error, logger)
