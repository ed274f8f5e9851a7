"""`sequitur sites`: forward between sites, say what is behind, and take over a lost one."""

import asyncio
import logging
from pathlib import Path

import click

from sequitur.cli.group import Group
from sequitur.cli.options import FILE, metrics_option
from sequitur.cli.outcome import MISTAKES, cannot, log_to_stderr
from sequitur.cli.running import run_until_stopped
from sequitur.sites import deciding, looking
from sequitur.sites.config import load_sites
from sequitur.sites.pages import SitePages
from stores.sites.forwarder import Forwarder
from topology.model.errors import DeclarationError

logger = logging.getLogger("sites")
_GRACE = 5.0
"""Seconds for which forwarders may finish what they have in hand."""


@click.group("sites", cls=Group)
def command() -> None:
    """Link sites that have a broker each, and take over one that is lost.

    \b
    sequitur sites forward newark.toml
    sequitur sites takeover newark.toml kennedy --epoch 1 --reason "power is out"

    FILE names this site, the others, and the topics that they share. lag and gaps
    end with status 1 where something is missing; they and status where a partition
    stands still or a site does not answer.
    """


@command.command()
@click.argument("file", type=FILE)
@click.option("--peer", multiple=True, help="Forward to this site alone; repeatable.")
@metrics_option
def forward(file: Path, peer: tuple[str, ...], metrics: str | None) -> int:
    """Forward what is published here to the others, until it is stopped."""
    log_to_stderr()
    try:
        found = load_sites(file)
        peers = [found.named(name) for name in peer] or found.others(found.own)
        if found.here in peers:
            raise DeclarationError(f"--peer {found.own}: this is the own site; name another one")
    except (*MISTAKES, ValueError) as error:
        return cannot(error, logger)
    ways = [Forwarder(found.here, peer, topic) for peer in peers for topic in found.topics]

    async def work(stopped: asyncio.Event) -> None:
        async with SitePages(ways, found.here.kafka).at(metrics):
            tasks = [asyncio.create_task(each.run(stopped)) for each in ways]
            await stopped.wait()
        _, late = await asyncio.wait(tasks, timeout=_GRACE)
        for task in late:
            task.cancel()
        await asyncio.wait(tasks, timeout=_GRACE)

    try:
        return run_until_stopped(work)
    except MISTAKES as error:
        return cannot(error, logger)


for each in (*looking.COMMANDS, *deciding.COMMANDS):
    command.add_command(each)
