"""`sequitur sites takeover`, `return` and `accept-loss`: decisions about sites, on record."""

import time

import click

from sequitur.cli.options import COUNT
from sequitur.cli.statuses import DONE
from sequitur.sites.answers import decided, id_of
from sequitur.sites.config import SitesFile
from sequitur.sites.on_file import on_file
from stores.sites.fences import Fence, check, decide
from stores.sites.lag import lag
from stores.sites.losses import accept_loss, deleted
from stores.sites.takeover import survey, take_over
from stores.user import user_name
from topology.model.counted import counted
from topology.model.printable import printable

_dry_run = click.option("--dry-run", is_flag=True, help="Say what would be done, and do nothing.")
_epoch = click.option("--epoch", type=COUNT, required=True, help="One above the last decision's.")
_reason = click.option("--reason", required=True, help="Why; it stays on record.")
_without = click.option(
    "--without", multiple=True, metavar="SITE", help="That is out of reach too; repeatable."
)


@click.command()
@_epoch
@_reason
@_without
@_dry_run
@on_file
@click.argument("site")
async def takeover(
    found: SitesFile, site: str, epoch: int, reason: str, without: tuple[str, ...], dry_run: bool
) -> int:
    """Take over a lost SITE: it forwards nothing more, and the others are made equal.

    What one of them has of it is copied to those that lack it. Run it again with the
    same epoch if it was interrupted: nothing comes twice.
    """
    _, cluster, sites = await decided(found, site, without)
    fence = Fence(epoch, True, user_name(), reason, time.time())
    if dry_run:
        await check(sites, cluster, fence)
        for each in await survey(site, cluster, sites):
            print(f"would copy: {each}")
        print(f"would fence {site}, cluster {printable(cluster)}, in epoch {epoch}")
        return DONE
    copied = await take_over(site, cluster, sites, found.topics, fence, print)
    print(f"{site} is taken over in epoch {epoch}: {counted(copied, 'message')} copied")
    return DONE


@click.command("return")
@_epoch
@_reason
@_without
@_dry_run
@on_file
@click.argument("site")
async def return_(
    found: SitesFile, site: str, epoch: int, reason: str, without: tuple[str, ...], dry_run: bool
) -> int:
    """Let a SITE that was taken over forward again, from where each other site is."""
    back, cluster, sites = await decided(found, site, without)
    fence = Fence(epoch, False, user_name(), reason, time.time())
    await check(sites, cluster, fence)
    behind = await lag(back, sites, found.topics) if await id_of(back) is not None else []
    for each in behind:
        if each.site and each.missing:
            print(f"{'would be' if dry_run else 'to be'} merged: {each}")
    if dry_run:
        print(f"would return {site}, cluster {printable(cluster)}, in epoch {epoch}")
        return DONE
    for other in sites:
        await decide(other, cluster, fence)
    print(
        f"{site} is returned in epoch {epoch}: its forwarders go on; gaps says when all is merged"
    )
    return DONE


@click.command("accept-loss")
@click.option("--peer", required=True, help="The site that lacks it.")
@click.option("--topic", required=True)
@_reason
@_dry_run
@on_file
async def give_up(found: SitesFile, peer: str, topic: str, reason: str, dry_run: bool) -> int:
    """Give up what retention deleted here before it was copied; the rest goes on."""
    there = found.named(peer)
    if dry_run:
        ranges = await deleted(found.here, there, topic)
    else:
        ranges = await accept_loss(found.here, there, topic, user_name(), reason)
    for number, low, high in ranges:
        word = "would give up" if dry_run else "given up"
        print(f"{word}: {printable(topic)}/{number}, offsets {low} to {high}, at {peer}")
    if not ranges:
        print("nothing that is deleted is missing there")
    return DONE


COMMANDS = (takeover, return_, give_up)
